"""The reference's block store: block tables, prefix lookup, allocation and its roll-back.

A block keeps its key when it is freed, and loses it when it is taken again: freed blocks are the
prefix cache. Blocks leave the free list at its head and return to its tail.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from kvsweep.replica.errors import ReferencePanic
from kvsweep.replica.keys import Keys, Piece
from kvsweep.replica.request import Request
from kvsweep.replica.switches import Switches


@dataclass(slots=True, eq=False)
class Block:
    """One KV block: users, key of the content up to its end (None = none), and the tokens held."""

    id: int
    users: int = 0
    key: int | None = None
    filled: int = 0
    pieces: list[Piece] = field(default_factory=list)

    def append(self, request: Request, start: int, stop: int) -> None:
        """Store tokens ``start`` to ``stop`` of a request behind those already held."""
        if start == stop:
            return
        self.filled += stop - start
        if self.pieces:
            last, first, end = self.pieces[-1]
            if last is request and end == start:
                self.pieces[-1] = (request, first, stop)
                return
        self.pieces.append((request, start, stop))

    def clear(self) -> None:
        """Forget key and tokens."""
        self.key = None
        self.filled = 0
        self.pieces = []


@dataclass(slots=True)
class _Undo:
    """What one allocation did so far: blocks taken (with their old content) and blocks shared."""

    taken: list[tuple[Block, int | None, int, list[Piece]]] = field(default_factory=list)
    shared: list[Block] = field(default_factory=list)


class BlockStore:
    """The blocks of one instance.

    Attributes
    ----------
    tables : dict of list of Block
        Request index -> its blocks in order.
    by_key : dict of Block
        Key -> the block found under it. Two blocks can have the same key: the later one takes the
        entry over, and when either is taken the entry goes (D10).
    hits, misses : int
        Cached blocks referenced; blocks newly taken, for prompt and output alike.
    evictions : int
        Blocks that still had a key when they were taken.
    """

    def __init__(self, blocks: int, block_size: int, switches: Switches, keys: Keys) -> None:
        self.total = blocks
        self.block_size = block_size
        self.switches = switches
        self.keys = keys
        self.blocks = [Block(i) for i in range(blocks)]
        self.free = OrderedDict((block.id, block) for block in self.blocks)
        self.tables: dict[int, list[Block]] = {}
        self.by_key: dict[int, Block] = {}
        self.hits = 0
        self.misses = 0
        self.evictions = 0
        self.clock = 0

    @property
    def used(self) -> int:
        """Blocks in use, leaked ones included."""
        return self.total - len(self.free)

    @property
    def held(self) -> int:
        """Blocks reachable from a table; those in use beyond are leaked (D0)."""
        return len({block.id for table in self.tables.values() for block in table})

    @property
    def utilization(self) -> float:
        """Share of the blocks in use."""
        return self.used / self.total

    @property
    def found(self) -> int:
        """Blocks that count as hits in the hit rate."""
        return self.hits

    @property
    def looked_at(self) -> int:
        """Blocks that count in the hit rate: decode blocks, newly taken, are among the misses."""
        return self.hits + self.misses

    @property
    def hit_rate(self) -> float:
        """Share of hits, as the reference counts them; 0 before the first block."""
        return self.found / self.looked_at if self.looked_at else 0.0

    @property
    def thrashing_rate(self) -> float:
        """Share of offloaded blocks reloaded at once: none without a CPU tier."""
        return 0.0

    @property
    def pending_latency(self) -> int:
        """Transfer time not yet charged to a step, microseconds: none without a CPU tier."""
        return 0

    def take_pending_latency(self) -> int:
        """Return the transfer time to charge to the current step, and clear it."""
        return 0

    def cached_prefix(self, request: Request) -> list[Block]:
        """Return the blocks that hold the longest cached prefix of the prompt. Changes nothing."""
        found = []
        for key in self.keys.prompt_blocks(request, self.block_size):
            block = self.by_key.get(key)
            if block is None:
                break
            found.append(block)
        return found

    def allocate(
        self, request: Request, start: int, stop: int, cached: Sequence[Block] = ()
    ) -> bool:
        """Store tokens ``start`` to ``stop`` of a request; False, and rolled back, if it failed.

        A request without a table first references the ``cached`` blocks. In prefill the blocks for
        the new tokens are checked against the free ones at entry, without those that ``cached``
        takes out of the free list, so the allocation can still fail half-way.

        Raises
        ------
        ReferencePanic
            In prefill if ``start > stop``, where the reference crashes (D7).
        """
        if request.progress < request.prompt_tokens:
            if start > stop:
                raise ReferencePanic("D7", f"slice bounds out of range [{start}:{stop}]")
            if self._blocks_for(stop - start) > len(self.free):
                return False
        undo = _Undo()
        if self._store(request, start, stop, cached, undo):
            return True
        self._roll_back(request, undo)
        return False

    def _store(
        self, request: Request, start: int, stop: int, cached: Sequence[Block], undo: _Undo
    ) -> bool:
        """Put tokens into the table's last block and new ones; False if a new one was lacking.

        Without tokens to store nothing happens: ``cached`` is not referenced either (D3).
        """
        prefill = request.progress < request.prompt_tokens
        needed = self._blocks_for(stop - start)
        position = start
        while position < stop:
            table = self.tables.get(request.index)
            if table is not None and 0 < table[-1].filled < self.block_size:
                position = self._fill(request, table, position, stop)
                if self.switches.recount_after_fill:
                    needed = self._blocks_for(stop - position)
                continue
            if table is None:
                table = self.tables[request.index] = self._share(cached, undo)
            for _ in range(needed):
                block = self._take(undo)
                if block is None:
                    return False
                table.append(block)
                end = min(position + self.block_size, stop)
                block.append(request, position, end)
                position = end
                if prefill and block.filled == self.block_size:
                    self._set_key(block, self.keys.prefix(request, end))
        return True

    def _blocks_for(self, tokens: int) -> int:
        """Return the blocks that ``tokens`` fill, the last one perhaps in part."""
        return -(-tokens // self.block_size)

    def release(self, request: Request) -> None:
        """Drop a request's table, last block first, so that its last block is taken again first."""
        for block in reversed(self.tables.pop(request.index, [])):
            self._drop_user(block)

    def _share(self, cached: Sequence[Block], undo: _Undo) -> list[Block]:
        """Add a user to each of ``cached`` and return them as the start of a table."""
        for block in cached:
            block.users += 1
            self.free.pop(block.id, None)
            self.hits += 1
            undo.shared.append(block)
        return list(cached)

    def _fill(self, request: Request, table: list[Block], position: int, stop: int) -> int:
        """Fill the table's last block up and return the position reached."""
        block = table[-1]
        end = min(position + self.block_size - block.filled, stop)
        block.append(request, position, end)
        if block.filled == self.block_size:
            self._set_key(block, self.keys.sequence(p for b in table for p in b.pieces))
        return end

    def _take(self, undo: _Undo) -> Block | None:
        """Take the block at the head of the free list, or return None if it is empty."""
        if not self.free:
            return None
        _, block = self.free.popitem(last=False)
        undo.taken.append((block, block.key, block.filled, block.pieces))
        self.evictions += block.key is not None
        self._forget_key(block)
        block.clear()
        block.users = 1
        self.misses += 1
        return block

    def _forget_key(self, block: Block) -> None:
        """Remove a block's key from the lookup, whichever block the entry names (D10)."""
        if block.key is None:
            return
        if not self.switches.entries_keep_owner or self.by_key.get(block.key) is block:
            self.by_key.pop(block.key, None)

    def _set_key(self, block: Block, key: int) -> None:
        """Make a full block findable under ``key``."""
        block.key = key
        self.by_key[key] = block

    def _drop_user(self, block: Block) -> None:
        """Take one user off a block; without users it goes to the tail of the free list."""
        block.users -= 1
        if block.users == 0:
            self.free[block.id] = block

    def _roll_back(self, request: Request, undo: _Undo) -> None:
        """Undo a failed allocation, as far as the reference does (D0, D11)."""
        prepend = self.switches.rollback_prepends
        for block, key, filled, pieces in reversed(undo.taken):
            self._untake(block, key, filled, pieces)
            if prepend:
                self.free.move_to_end(block.id, last=False)
        for block in reversed(undo.shared) if prepend else undo.shared:
            self.hits -= 1
            self._drop_user(block)
        table = self.tables[request.index]
        kept = len(table) - len(undo.taken) - len(undo.shared)
        if self.switches.rollback_keeps_table and kept:
            del table[kept:]
        else:
            del self.tables[request.index]

    def _untake(self, block: Block, key: int | None, filled: int, pieces: list[Piece]) -> None:
        """Return a taken block to the tail of the free list with its old key."""
        self._forget_key(block)
        block.clear()
        if key is not None:
            self._set_key(block, key)
            self.evictions -= 1
        if self.switches.rollback_keeps_tokens:
            block.filled, block.pieces = filled, pieces
        block.users = 0
        self.free[block.id] = block
        self.misses -= 1
