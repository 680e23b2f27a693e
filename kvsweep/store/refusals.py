"""Stores that are not read or continued, and what is said of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kvsweep.errors import InputError
from kvsweep.store.metadata import ROOT, Root, read_root, reason_of

if TYPE_CHECKING:
    from kvsweep.addresses import Where

FORMAT = "kvsweep-store/2"
FORMAT_1 = "kvsweep-store/1"
OURS = "kvsweep-"
"""What the formats of all kinds of stores begin with."""

MAKER = "kvsweep grid SWEEP.toml"


def read_store(path: Where, form: str = FORMAT, maker: str = MAKER) -> Root:
    """Read the root of a store.

    Parameters
    ----------
    path : Where
        Its directory, or address.
    form : str
        What its attribute ``format`` must be.
    maker : str
        The command that makes such stores, for messages.

    Raises
    ------
    InputError
        If there is no store at `path`, it cannot be read, or it is something else.
    """
    root = read_root(path, maker)
    if root.attributes.get("format") != form:
        if root.attributes.get("format") == FORMAT_1 and form == FORMAT:
            raise older(path)
        if is_newer(root, form):
            raise newer(path)
        made = "" if form == FORMAT else f", as `{maker}` makes it"
        if root.sealed and not root.intact:
            raise damage(path, [ROOT])
        told = f"is no store of kvsweep{made}"
        if str(root.attributes.get("format")).startswith(OURS):
            told = f"is a store of another kind, not one that `{maker}` makes"
        raise InputError(f"{path}: {told} (attribute `format` is not {form!r})")
    return root


def is_newer(root: Root, form: str = FORMAT) -> bool:
    """Whether a store has a later version of a format than the one that is known."""
    kind, _, known = form.partition("/")
    found = re.fullmatch(rf"{re.escape(kind)}/(\d{{1,9}})", str(root.attributes.get("format")))
    return bool(found and int(found[1]) > int(known))


def newer(path: Where) -> InputError:
    """Return the error of a store of a later version."""
    return InputError(
        f"{path}: made by a newer kvsweep, whose format this one does not know: upgrade kvsweep "
        "to read it, or name another store"
    )


def older(path: Where) -> InputError:
    """Return the error of a store of version 1."""
    return InputError(
        f"{path}: a store of version 1, of an older kvsweep: it is neither continued nor checked "
        f"for damage; `{MAKER} --overwrite` makes it anew, --out makes another; xarray.open_zarr "
        "and kvsweep.open_results(..., verify=False) read it as it is"
    )


def refuse_unsealed(path: Where, root: Root, maker: str) -> None:
    """Refuse a store without checksums: to read it were to print numbers that nobody vouches for.

    Raises
    ------
    InputError
        If it has none.
    """
    if not root.sealed:
        raise InputError(
            f"{path}: has no checksums: an older kvsweep made it, or another program changed it, "
            f"so that damage would not be seen; `{maker}` makes it anew, xarray.open_zarr reads it "
            "as it is"
        )


def damage(path: Where, files: list[str], remedy: str = "") -> InputError:
    """Return the error of a store whose `files` are not what was written, naming the first."""
    more = f" and {len(files) - 1:,} more" if len(files) > 1 else ""
    remedy = remedy or f"`{MAKER} --out {path}` runs these cells again"
    return InputError(
        f"{path}: damaged: {files[0]}{more} changed since written; {remedy}, "
        f"`kvsweep verify {path}` lists all"
    )


def replaced(path: Where) -> InputError:
    """Return the error of a store that is another one than was opened."""
    return InputError(
        f"{path}: the store was replaced or extended since it was opened; open it again"
    )


def unreadable(path: object, error: Exception) -> InputError:
    """Return the error that a broken store raises; what Zarr raises then is of any type."""
    return InputError(f"{path}: cannot be read as a Zarr store: {reason_of(error)}")


def gone(path: Where) -> InputError:
    """Return the error of a store that is no longer where it was opened."""
    return InputError(f"{path}: the store was moved or deleted since it was opened")
