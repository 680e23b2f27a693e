"""The groups of layers that share block tables, and the bytes of a block: vLLM's hybrid cache.

Counterpart of vLLM 0.33.0's ``vllm/v1/core/kv_cache_planning.py`` (``get_kv_cache_groups`` and
what it calls) for layouts of the cache that are not block-outermost, as those of FlashAttention,
FlashInfer and Triton are by default.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from kvsweep.errors import InputError
from kvsweep.sizing.layers import LayerCache, Limits, PagedLayer, cdiv

PADDING_PAYS = 1.5
"""Kinds of layers whose numbers differ by less than this factor are padded to the larger one."""


@dataclass(frozen=True)
class Group:
    """Layers that share one block table.

    Attributes
    ----------
    members : tuple of int
        Indices of their caches in the model.
    pages : tuple of PagedLayer
        The layers, in the same order.
    """

    members: tuple[int, ...]
    pages: tuple[PagedLayer, ...]

    @property
    def block_size(self) -> int:
        """Tokens of a block."""
        return self.pages[0].block_size

    def blocks_per_request(self, limits: Limits) -> int:
        """Return the most blocks of this group that a request holds."""
        return max(page.blocks_per_request(limits) for page in self.pages)

    def block_bytes(self, caches: Collection[int]) -> int:
        """Return the bytes of a block on a GPU that has these caches of the model."""
        pairs = zip(self.members, self.pages, strict=True)
        return sum(page.page_bytes for member, page in pairs if member in caches)


def group_layers(layers: Sequence[LayerCache], block_size: int) -> list[Group]:
    """Return the groups of a model's layers.

    Parameters
    ----------
    layers : sequence of LayerCache
        All layers of the model with a cache, in order.
    block_size : int
        vLLM's ``block_size``, tokens.

    Raises
    ------
    InputError
        If vLLM has no way to give all layers blocks of as many bytes.
    """
    pages = [_page(layer, block_size) for layer in layers]
    if len({(layer.window, layer.state) for layer in layers}) == 1:
        return [Group(tuple(range(len(pages))), tuple(pages))]
    kinds: dict[PagedLayer, list[int]] = {}
    for index, page in enumerate(equal_pages(pages)):
        kinds.setdefault(page, []).append(index)
    size = _group_size([len(members) for members in kinds.values()])
    groups = []
    for page, members in kinds.items():
        count = cdiv(len(members), size)
        for first in range(count):
            mine = tuple(members[first::count])
            groups.append(Group(mine, (page,) * len(mine)))
    return groups


def _page(layer: LayerCache, block_size: int) -> PagedLayer:
    if layer.state is None:
        return PagedLayer(layer, block_size, block_size * layer.token_bytes)
    return PagedLayer(layer, layer.state.block_size, layer.state.size)


def equal_pages(pages: Sequence[PagedLayer]) -> list[PagedLayer]:
    """Make the pages of all layers as large as the largest: by more tokens, or else by padding."""
    largest = max(page.page_bytes for page in pages)
    return [_enlarged(page, largest) for page in pages]


def _enlarged(page: PagedLayer, size: int) -> PagedLayer:
    ratio, rest = divmod(size, page.page_bytes)
    if page.layer.state is not None:
        return PagedLayer(page.layer, page.block_size, size)
    if not rest:
        return PagedLayer(page.layer, page.block_size * ratio, size)
    if page.layer.latent:
        raise InputError(
            f"vLLM 0.33.0 cannot make blocks of {page.page_bytes:,} bytes (MLA) as large as those "
            f"of {size:,} bytes of other layers"
        )
    return PagedLayer(page.layer, page.block_size, size)


def _group_size(counts: list[int]) -> int:
    """Return the layers of a group, given those of each kind."""
    fewest, most = min(counts), max(counts)
    return most if most < fewest * PADDING_PAYS else fewest


def stages(layers: int, pp: int) -> list[range]:
    """Return the layers of each stage of a pipeline (vLLM's ``get_pp_indices``)."""
    sizes = [layers // pp] * pp
    for late in range(2, layers % pp + 2):
        sizes[-late] += 1
    ends = [sum(sizes[: stage + 1]) for stage in range(pp)]
    return [range(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def block_bytes(groups: Sequence[Group], caches: Collection[int]) -> int:
    """Return the bytes of a block on a GPU that has these caches: those of the largest group."""
    return max(group.block_bytes(caches) for group in groups)


def blocks_per_request(groups: Sequence[Group], limits: Limits) -> int:
    """Return the most blocks that a request holds, of all groups: they share one pool."""
    return sum(group.blocks_per_request(limits) for group in groups)
