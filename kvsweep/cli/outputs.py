"""What commands write beside their store: paths given by the user, and figures of their own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from kvsweep.addresses import Address, Where, located, store_place
from kvsweep.cli.base import check_outputs
from kvsweep.errors import InputError
from kvsweep.files import is_special, output_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_SEPARATORS = tuple(filter(None, (os.sep, os.altsep)))
FIGURES = (".png", ".svg", ".pdf")
OTHER_ENDINGS = (".json", ".yaml", ".yml", ".txt", ".csv")
"""Endings of files of other kinds: what follows a dot may belong to a name, as in `llama-3.1`."""

overwrite_option = click.option("--overwrite", is_flag=True, help="Replace files that are there.")


class OutputPath(click.Path):
    """A path to write to: a file, or a folder where `dir_okay`; addresses are refused."""

    def __init__(self, *, dir_okay: bool = True) -> None:
        super().__init__(path_type=Path, dir_okay=dir_okay)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path.

        Raises
        ------
        InputError
            If nothing can be written there, as far as its name goes.
        """
        if not self.dir_okay and os.fspath(value).endswith(_SEPARATORS):
            self.fail(f"{str(value)!r} names a folder: name a file", param, ctx)
        return super().convert(output_path(value), param, ctx)


class PresetPath(OutputPath):
    """A preset to write: a file that ``latency.model`` finds, or a device."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        path = super().convert(value, param, ctx)
        if not path.name.endswith(".toml") and not is_special(path):
            known = path.suffix.lower() in OTHER_ENDINGS
            name = f"{path.with_suffix('.toml') if known else f'{path}.toml'}"
            self.fail(f"{str(path)!r}: presets are files *.toml: {name!r}", param, ctx)
        return path


class StorePath(click.ParamType):  # type: ignore[type-arg]
    """A store: a path, or an address such as ``s3://bucket/h8.zarr``."""

    name = "path"

    def __init__(self, *, write: bool = False) -> None:
        self.writes = write

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Where:
        """Return the path or address.

        Raises
        ------
        InputError
            If it cannot be that of a store, or, if it is to be written, nothing can be written.
        """
        return store_place(value) if self.writes else located(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Leave files and folders to the shell, which completes no others where we say nothing."""
        return [CompletionItem(incomplete, type="file")]


def refuse_existing(option: str, path: Path, overwrite: bool) -> None:
    """Refuse to replace a file unasked; devices and pipes are written to."""
    if path.exists() and not overwrite and not is_special(path):
        raise InputError(f"{option} {path}: is there already; --overwrite replaces it")


def check_new(inputs: Iterable[Where], outputs: Mapping[str, Path | None], overwrite: bool) -> None:
    """Refuse outputs that cannot be written, before anything is read.

    Parameters
    ----------
    inputs : iterable of Path or Address
        What is read, which is never replaced.
    outputs : mapping of str to Path or None
        Files to write, by the option that names each; None if it was not given.
    overwrite : bool
        Whether other files may be replaced.

    Raises
    ------
    InputError
        Naming the first such option; or if files may be replaced and none is written.
    """
    if overwrite and outputs and not any(outputs.values()):
        *others, last = outputs
        names = f"{', '.join(others)} or {last}" if others else last
        raise InputError(f"--overwrite: has no effect without {names}")
    check_outputs(inputs, outputs)
    for option, path in outputs.items():
        if path is None or is_special(path):
            continue
        refuse_existing(option, path, overwrite)
        if not path.parent.is_dir():
            raise InputError(
                f"{option} {path}: cannot be written: there is no folder {str(path.parent)!r}"
            )
        if option == "--plot" and path.suffix.lower() not in FIGURES:
            raise InputError(f"{option} {path}: figures are written as .png, .svg or .pdf")


def file_beside(store: Where, ending: str) -> Path:
    """Return where a file about a store is written: beside it, or here if it is at an address."""
    name = f"{store.stem}-{ending}"
    return Path(name) if isinstance(store, Address) else output_path(store).with_name(name)


def draw_beside(make: Callable[[], Figure], path: Path) -> dict[str, str | None]:
    """Draw a figure that nobody named; a run is not less complete without.

    Returns
    -------
    dict of str to str or None
        ``figure``, its path, or None and why there is none under ``no_figure``.
    """
    try:
        from kvsweep.plot import save
        from kvsweep.plot.saving import is_own

        if path.exists() and not is_own(path):
            raise InputError(f"{path} is there and was not drawn by kvsweep: it is kept")
        save(make(), path)
    except Exception as error:  # of Matplotlib anything can come, and the results are in the store
        reason = settings_problem(error) or " ".join(str(error).split()) or type(error).__name__
        return {"figure": None, "no_figure": reason}
    return {"figure": str(path)}


def settings_problem(error: Exception) -> str:
    """Return what is wrong with the file of settings at which loading Matplotlib ended.

    Empty if something else ended it.
    """
    frames = (frame for frame, _ in walk_tb(error.__traceback__))
    inside = (each for each in frames if each.f_globals.get("__name__") == "matplotlib")
    file = next((each.f_locals["fname"] for each in inside if "fname" in each.f_locals), None)
    if file is None or not isinstance(error, UnicodeDecodeError):
        return ""
    remedy = "save it as UTF-8, or set MATPLOTLIBRC to another"
    return f"{file}: Matplotlib's settings are not UTF-8; {remedy}"
