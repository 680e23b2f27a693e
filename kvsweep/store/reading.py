"""Opening a store for analysis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvsweep.addresses import Address, Where, located
from kvsweep.arguments import checked
from kvsweep.errors import InputError, did_you_mean
from kvsweep.metrics import QUANTILES, VARIABLES, quantile_names
from kvsweep.reading import working_folder
from kvsweep.store.arrays import from_document
from kvsweep.store.checking import IDENTITY, Check, Shards, check
from kvsweep.store.metadata import ROOT, Root, read_root
from kvsweep.store.places import storage
from kvsweep.store.points import with_points
from kvsweep.store.refusals import (
    FORMAT_1,
    MAKER,
    damage,
    gone,
    is_newer,
    read_store,
    refuse_unsealed,
    replaced,
    unreadable,
)
from kvsweep.store.shard_records import record_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import xarray as xr

    from kvsweep.store.shard_records import Record
    from kvsweep.store.sharding import Place

# How a variable is laid out, in xarray's words, and what of it a copy of a part takes over.
_OF_CHUNKS = ("chunks", "preferred_chunks", "shards")
_OF_COPIES = ("chunks", "shards")


@checked
def open_results(path: str | Where, *, verify: bool = True) -> xr.Dataset:
    """Open a store for reading.

    Quantiles are added under their own names: ``ttft_p99_ms`` is ``ttft_ms`` at quantile 0.99.
    Values are read when they are used.

    Parameters
    ----------
    path : path
        Directory of the store, or its address, as ``s3://bucket/h8.zarr``.
    verify : bool
        Compare each file with its checksum when something is read of it: opening reads no cell,
        and finds what is missing or cut short. Without, damage may be read as numbers.

    Returns
    -------
    xr.Dataset
        A variable per measure, with ``units`` and ``long_name``, over the axes of the sweep:
        float64, int64 or text. Look at ``status`` first: only ``ok`` cells carry numbers, others
        NaN or, of counts, -1; so do ``ok`` cells that have no such instance, round or class.

    Raises
    ------
    InputError
        If there is no store at `path`, it is damaged, or it cannot be read. Damage that only the
        content shows is raised when that is read, as is that the store was replaced or extended
        since it was opened.

    Examples
    --------
    >>> import kvsweep
    >>> ds = kvsweep.open_results("results/small.zarr")
    >>> ds["ttft_p99_ms"].dims, ds["ttft_p99_ms"].attrs["units"]
    (('policy', 'rate', 'gpu_blocks', 'seed'), 'ms')
    """
    path = located(path)
    root = read_root(path, MAKER)
    if not verify and root.attributes.get("format") == FORMAT_1:
        return _finished(path, root, lambda: _opened(str(_wherever(path))))
    read_store(path)  # which refuses another
    if verify:
        refuse_unsealed(path, root, f"{MAKER} --overwrite")
    try:
        if verify:
            _refuse(path, root.damaged(storage(path)))
        return _finished(path, root, lambda: _results(path, root, verify))
    except InputError as error:  # files of two stores, or none, look like damage
        raise _changed(path, root) or error from None


def load(ds: xr.Dataset, *names: str) -> xr.Dataset:
    """Read the variables `names` of an open store into memory; all but per-request ones if none.

    Raises
    ------
    InputError
        If there is no such variable, or a file of the store is damaged.
    """
    for name in names or [str(n) for n in ds.data_vars if "request" not in ds[n].dims]:
        if name not in ds:
            raise InputError(
                f"metric: no variable {name!r}{did_you_mean(name, list(map(str, ds)))}"
            )
        try:
            ds[name].load()
        except InputError:
            raise
        except Exception as error:
            raise unreadable(ds.encoding["source"], error) from error
    return ds


def check_store(path: Where) -> tuple[Root, Check]:
    """Compare all files of a store, of results or of measurements, with their checksums.

    Returns
    -------
    Root, Check
        What its root says, and what is the matter with it.

    Raises
    ------
    InputError
        If there is no store at `path`, it has no checksums, or it was replaced meanwhile.
    """
    root = read_root(path, MAKER)
    form = str(root.attributes.get("format"))
    if form == FORMAT_1 or is_newer(root) or not form.startswith("kvsweep-"):
        read_store(path)  # which says so
    refuse_unsealed(path, root, f"{MAKER} --overwrite")
    found = check(storage(path), root)
    changed = _changed(path, root) if found.files else None
    if changed:
        raise changed
    return root, found


def refuse_damaged(path: Where) -> None:
    """Compare all files of a store with their checksums.

    Raises
    ------
    InputError
        As `check_store`, or naming the first file that is not what was written.
    """
    _refuse(path, check_store(path)[1].files)


def stored_format(path: Where, maker: str = MAKER) -> object:
    """Return the attribute ``format`` of a Zarr group, None if it has none.

    Raises
    ------
    InputError
        If there is no group at `path`, or it cannot be read.
    """
    return read_root(path, maker).attributes.get("format")


def stored_attributes(path: Where) -> dict[str, Any]:
    """Return the attributes of a store of results.

    Raises
    ------
    InputError
        If there is none at `path`.
    """
    return read_store(path).attributes


def _changed(path: Where, root: Root) -> InputError | None:
    """Return the error of a store that is another one since its root was read, or is gone."""
    try:
        now = read_root(path, MAKER)
    except InputError:
        return gone(path) if storage(path).get(ROOT) is None else None
    another = now.intact and now.attributes != root.attributes
    return replaced(path) if another else None


def _results(path: Where, root: Root, verify: bool) -> xr.Dataset:
    """Open a store, of whose files only the records are read, and sizes looked at."""
    from kvsweep.store.named import named
    from kvsweep.store.verified import VerifiedStore

    shards = _shards(path, root)
    records = shards.records()
    if verify:
        _refuse(path, list(_lost(shards, records)))
    arrays = {name: from_document(name, root.arrays[name]) for name in shards.arrays}
    store = VerifiedStore(shards, arrays, records, compare=verify, told=path)
    return named(_opened(store), store.details)


def _shards(path: Where, root: Root) -> Shards:
    try:
        return Shards.of(storage(_wherever(path)), root)
    except (LookupError, TypeError, ValueError) as error:
        if root.sealed:
            raise
        raise InputError(
            f"{path}: another program laid out its arrays; xarray.open_zarr reads it as it is"
        ) from error


def _wherever(path: Where) -> Where:
    """Return a place that is the same whatever folder this process, or another, works in."""
    return path if isinstance(path, Address) else working_folder() / path


def _lost(shards: Shards, records: Mapping[Place, Record | None]) -> Iterator[str]:
    """Yield the files of results that are not there, or have another size."""
    unpacked = {record_name(shard): shard for shard, record in records.items() if record is None}
    wanted: dict[str, int | None] = {}
    for shard, record in records.items():
        for name, file in shards.files(shard).items() if record else ():
            there = record.files.get(name) if record else None
            wanted[file] = there[0] if there else None
    sizes = shards.folder.sizes([*unpacked, *wanted])
    for name, shard in unpacked.items():
        # A run that fills the store may have written it between the two looks.
        if shards.complete or (sizes[name] is not None and shards.record(shard) is None):
            yield name
    yield from (file for file, size in wanted.items() if sizes[file] != size)


def _refuse(path: Where, files: list[str]) -> None:
    if files:
        raise damage(path, files)


def _opened(store: Any) -> xr.Dataset:
    import xarray as xr

    return xr.open_dataset(store, engine="zarr", consolidated=True)


def _finished(path: Where, root: Root, open_it: Callable[[], xr.Dataset]) -> xr.Dataset:
    try:
        ds = _in_order(open_it())
    except InputError:
        raise
    except Exception as error:
        raise unreadable(path, error) from error
    ds.attrs = {name: value for name, value in root.attributes.items() if name != IDENTITY}
    ds = with_points(ds)
    ds.encoding["source"] = str(path)  # as it was given, for messages
    return ds


def _view(variable: xr.Variable, quantile: int) -> xr.Variable:
    """Return a variable at a quantile; its chunks and shards, of a dimension more, are left out."""
    view = variable.isel(quantile=quantile)
    encoding = view.encoding.items()
    view.encoding = {key: value for key, value in encoding if key not in _OF_CHUNKS}
    view.attrs["long_name"] = f"{QUANTILES[quantile]:g} {variable.attrs['long_name']}"
    return view


def _in_order(ds: xr.Dataset) -> xr.Dataset:
    """Order the variables as the registry does, the quantiles after their variable as views.

    Shards are of the whole: Zarr refuses to write a part with one dimension less in them.
    """
    for variable in ds.variables.values():
        for key in _OF_COPIES:
            variable.encoding.pop(key, None)
    names: list[str] = []
    views: dict[str, xr.Variable] = {}  # no DataArrays, whose axes would be compared
    for name in (name for name in VARIABLES if name in ds):
        names.append(name)
        variable = ds.variables[name]
        if "quantile" in variable.dims:
            aliases = quantile_names(name)
            views |= {alias: _view(variable, i) for i, alias in enumerate(aliases)}
            names += aliases
    said = [name for name in ("status", "status_detail") if name in ds]
    return ds.assign(views)[[*names, *said]]
