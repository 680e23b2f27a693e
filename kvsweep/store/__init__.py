"""Results on disk: a Zarr v3 group that plain xarray opens. Zarr is imported nowhere else.

A task leaves one file, its part, written by whoever simulates it, if that sees the store. One
process, under a lock, packs the parts of a shard into one file of each array, then writes a record
of their checksums. Every file is replaced in one rename, and a new store appears under its name
complete with all metadata. So after a kill at any moment each task is either done or pending. What
was half written is written again, to the same bytes, and what changed since it was written is found
before it is read. Nothing is synced to disk: what a dying machine loses is found, too, and
simulated again. `docs/stores.md` tells what is where.

- `layout`: arrays and coordinates of a store; `details`: its table of cells that did not end well.
- `sharding`: which tasks share files.
- `arrays`: an array's metadata, and the bytes of its chunks and shards; `fast`, `by_zarr`: how
  these are made.
- `metadata`: the root of a store, with the checksums of all that does not change.
- `parts`: what a task leaves; `delivery`: who writes it; `packing`: what becomes of it;
  `shard_records`: what the files of a shard must be.
- `checking`: comparing all of a store with its checksums.
- `identity`: what must agree before a store is continued; `unlike_sweeps`: whether sweeps do;
  `inputs`: the files that are named; `restoring`: the sweep that a store was made from.
- `folder`: where bytes are put and read; `folders`: making, replacing and deleting whole stores,
  and nothing else. `bucket`, `objects`, `leases`: the same, and locks, at an address;
  `connection`: how that is reached; `places`: which of the two.
- `lock`: one run at a time; `share`, `sharing`: or several, each with its tasks; `sources`: stores
  of such runs, to be put together.
- `writing`: creating or continuing a store; `filling`: filling it.
- `reading`: opening a store for analysis; `verified`: what Zarr reads then; `named`: names for
  codes.
- `refusals`: stores that are not read or continued.
- `datasets`: measurements, which are small and written whole.
"""

from kvsweep.store.arrays import Array
from kvsweep.store.datasets import check_replaceable, open_dataset, save_dataset
from kvsweep.store.delivery import Delivery
from kvsweep.store.filling import Store
from kvsweep.store.growing import finish_growing, growing, larger_store
from kvsweep.store.identity import (
    describe,
    difference_of_cells,
    difference_of_makers,
    difference_of_runs,
)
from kvsweep.store.inputs import input_sums
from kvsweep.store.layout import measured
from kvsweep.store.lock import locked
from kvsweep.store.places import exists, storage
from kvsweep.store.reading import (
    check_store,
    load,
    open_results,
    refuse_damaged,
    stored_attributes,
    stored_format,
)
from kvsweep.store.refusals import FORMAT
from kvsweep.store.restoring import FOLDERS, restored_sweep, scenarios_of
from kvsweep.store.share import Share
from kvsweep.store.sharing import completed, left_to_do, opened
from kvsweep.store.sources import Source, check_alike, chosen, refuse_unlike, unlike
from kvsweep.store.unlike_sweeps import difference_of_sweeps
from kvsweep.store.writing import (
    check_overwritable,
    default_path,
    pending,
    prepare,
    real_path,
    update_attributes,
)

__all__ = [
    "FOLDERS",
    "FORMAT",
    "Array",
    "Delivery",
    "Share",
    "Source",
    "Store",
    "check_alike",
    "check_overwritable",
    "check_replaceable",
    "check_store",
    "chosen",
    "completed",
    "default_path",
    "describe",
    "difference_of_cells",
    "difference_of_makers",
    "difference_of_runs",
    "difference_of_sweeps",
    "exists",
    "finish_growing",
    "growing",
    "input_sums",
    "larger_store",
    "left_to_do",
    "load",
    "locked",
    "measured",
    "open_dataset",
    "open_results",
    "opened",
    "pending",
    "prepare",
    "real_path",
    "refuse_damaged",
    "refuse_unlike",
    "restored_sweep",
    "save_dataset",
    "scenarios_of",
    "storage",
    "stored_attributes",
    "stored_format",
    "unlike",
    "update_attributes",
]
