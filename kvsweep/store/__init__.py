"""Results on disk: a Zarr v3 group that plain xarray opens. Zarr is imported nowhere else.

One process writes, whole chunks only. A chunk's file is replaced in one rename, the chunk of
``status`` comes last, and a new store appears under its name complete with all metadata. So after
a kill at any moment each chunk is either done or still says ``pending``; what was half written is
written again, to the same bytes. Nothing is synced to disk: this holds for the death of the
process, not of the machine.

- `layout`: arrays, coordinates and attributes of a store, and its creation.
- `identity`: what must agree before a store is continued.
- `chunks`: the file of one chunk.
- `writing`: creating or continuing a store, and filling it.
- `reading`: opening a store for analysis.
- `datasets`: measurements, which are small and written whole.
"""

from kvsweep.store.datasets import open_dataset, save_dataset
from kvsweep.store.reading import load, open_results, stored_format
from kvsweep.store.writing import Store, default_path, pending, prepare, update_attributes

__all__ = [
    "Store",
    "default_path",
    "load",
    "open_dataset",
    "open_results",
    "pending",
    "prepare",
    "save_dataset",
    "stored_format",
    "update_attributes",
]
