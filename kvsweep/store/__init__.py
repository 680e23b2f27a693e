"""Results on disk: a Zarr v3 group that plain xarray opens. Zarr is imported nowhere else.

One process writes, whole chunks only, under a lock. A chunk's file is replaced in one rename; then
comes a record of the checksums of a task's chunks, last its chunk of ``status``; and a new store
appears under its name complete with all metadata. So after a kill at any moment each task is either
done or pending. What was half written is written again, to the same bytes, and what changed since
it was written is found before it is read. Nothing is synced to disk: what a dying machine loses is
found, too, and simulated again.

- `arrays`: an array's metadata and the bytes of its chunks.
- `axes`: meanings and units of coordinates.
- `layout`: arrays, coordinates and attributes of a store, and its creation.
- `metadata`: the root of a store, with the checksums of all that does not change.
- `checking`: the records of the chunks' checksums.
- `identity`: what must agree before a store is continued.
- `folders`: making, replacing and deleting stores, and nothing else.
- `lock`: one run at a time.
- `chunks`: the files of chunks.
- `writing`: creating or continuing a store; `filling`: filling it.
- `reading`: opening a store for analysis.
- `datasets`: measurements, which are small and written whole.
"""

from kvsweep.store.datasets import check_replaceable, open_dataset, save_dataset
from kvsweep.store.filling import Store
from kvsweep.store.identity import difference_of_makers, restored_sweep
from kvsweep.store.lock import locked
from kvsweep.store.delivery import Delivery
from kvsweep.store.reading import check_store, load, open_results, stored_format
from kvsweep.store.refusals import FORMAT
from kvsweep.store.share import Share
from kvsweep.store.sharing import completed, joined
from kvsweep.store.writing import default_path, pending, prepare, real_path, update_attributes

__all__ = [
    "FORMAT",
    "Delivery",
    "Share",
    "Store",
    "check_replaceable",
    "check_store",
    "completed",
    "default_path",
    "difference_of_makers",
    "joined",
    "load",
    "locked",
    "open_dataset",
    "open_results",
    "pending",
    "prepare",
    "real_path",
    "restored_sweep",
    "save_dataset",
    "stored_format",
    "update_attributes",
]
