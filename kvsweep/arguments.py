"""Arguments of public functions: what each may be, by its name, which is the same everywhere.

Messages name the options of commands; to a caller in Python they name arguments.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import signature
from numbers import Integral, Real
from typing import Any, NamedTuple, ParamSpec, TypeVar

from kvsweep.errors import FOLDER_GONE, InputError, folder_is_gone, shown

P = ParamSpec("P")
R = TypeVar("R")

_DEEPEST = 20
"""Depth of a trace's dict to which its parts are made plain; no key lies deeper."""


class Kind(NamedTuple):
    """What an argument may be.

    Attributes
    ----------
    words : str
        What messages say that was expected.
    fits : callable (object) -> bool
        Whether a value is of that kind; what is out of range is the function's to refuse.
    plain : callable (object) -> object
        Python's own for a value that fits: no reader of sweeps takes NumPy's numbers.
    """

    words: str
    fits: Callable[[Any], bool]
    plain: Callable[[Any], Any] = lambda value: value


def _is_list(value: Any, fits: Callable[[Any], bool]) -> bool:
    return (
        isinstance(value, Sequence) and not isinstance(value, str | bytes) and all(map(fits, value))
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike) and isinstance(os.fspath(value), str)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    return not isinstance(value, Integral) or int(value).bit_length() < 64


def _plain_number(value: Any) -> int | float:
    return int(value) if isinstance(value, Integral) else float(value)


def _made_by(module: str, name: str) -> Callable[[Any], bool]:
    """Return a check of a class whose module is loaded if there is an object of it at all."""

    def fits(value: Any) -> bool:
        found = getattr(sys.modules.get(module), name, None)
        return found is not None and isinstance(value, found)

    return fits


def _is_panel(value: Any) -> bool:
    # Of polar ones, of maps and in three dimensions there is no place for what is drawn.
    return _made_by("matplotlib.axes", "Axes")(value) and value.name == "rectilinear"


def _is_explored(value: Any) -> bool:
    return ARGUMENTS["sweep"].fits(value) or ARGUMENTS["ds"].fits(value)


def _is_source(value: Any) -> bool:
    # A dataset, as of `replay`, is a mapping too.
    return _is_path(value) or (isinstance(value, Mapping) and not ARGUMENTS["ds"].fits(value))


def _plain_source(value: Any, depth: int = 0) -> Any:
    """Return a trace as JSON has it, of which parts may be tuples, arrays and NumPy's numbers."""
    if depth > _DEEPEST or isinstance(value, str | os.PathLike):
        return value
    if hasattr(value, "tolist"):  # of NumPy or pandas
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain_source(one, depth + 1) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_source(one, depth + 1) for one in value]
    return value


def _is_found(value: Any) -> bool:
    results = ("cliff", "front", "effects", "indices", "comparison", "ds")
    return any(ARGUMENTS[name].fits(value) for name in results)


def _is_mapping_of_numbers(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        _is_text(key) and _is_number(number) for key, number in value.items()
    )


TEXT = Kind("a string", _is_text)
TEXTS = Kind("a list of strings", lambda value: _is_list(value, _is_text))
OVERRIDES = TEXTS._replace(words="a list of strings, as ['cache.gpu_blocks=[1000, 2000]']")
OBJECTIVES = TEXTS._replace(words="a list of strings, as ['ttft_p99_ms:min']")
PATH = Kind("a path", _is_path)
SWITCH = Kind("True or False", lambda value: isinstance(value, bool))
WHOLE = Kind("an integer of 64 bits", lambda v: _is_number(v) and isinstance(v, Integral), int)
NUMBER = Kind("a number", _is_number, _plain_number)
CALLED = Kind("a function", callable)
ANY = Kind("anything", lambda value: True)

ARGUMENTS: dict[str, Kind] = {
    "ds": Kind("a dataset, as of open_results(path)", _made_by("xarray", "Dataset")),
    **dict.fromkeys(
        "ab", Kind("a dataset, as of open_results(path)", _made_by("xarray", "Dataset"))
    ),
    "sweep": Kind("what load_sweep(path) returns", _made_by("kvsweep.config.sweep", "Sweep")),
    "cliff": Kind("what find_cliff returns", _made_by("kvsweep.analysis.cliff_records", "Cliff")),
    "front": Kind("what pareto_front returns", _made_by("kvsweep.analysis.pareto", "Front")),
    "effects": Kind(
        "what factorial_effects or joint_effects returns",
        _made_by("kvsweep.analysis.effect_records", "Effects"),
    ),
    "indices": Kind(
        "what sensitivity_indices returns",
        _made_by("kvsweep.analysis.sensitivity", "Sensitivity"),
    ),
    "comparison": Kind(
        "what compare returns", _made_by("kvsweep.analysis.compare_records", "Comparison")
    ),
    "cost": Kind(
        "what prefix_cost returns", _made_by("kvsweep.analysis.prefix_cost", "PrefixCost")
    ),
    "figure": Kind("a figure of a plot_ function", _made_by("matplotlib.figure", "Figure")),
    "ax": Kind("a rectilinear panel of Matplotlib's", _is_panel),
    "size": Kind(
        "two numbers, the width and height in inches",
        lambda value: _is_list(value, _is_number) and len(value) == 2,
    ),
    "levels": Kind("a dict of numbers by name", _is_mapping_of_numbers),
    "source": Kind("a path or a dict", _is_source, _plain_source),
    "explored": Kind("what load_sweep(path) or open_results(path) returns", _is_explored),
    "found": Kind("what find_cliff, another analysis or open_results(path) returns", _is_found),
    # Where nothing is, nothing is found; but no system call takes a zero byte.
    "folder": Kind("a path", lambda v: _is_path(v) and "\0" not in os.fspath(v)),
    "stores": Kind("a list of paths", lambda value: _is_list(value, _is_path)),
    "metrics": Kind("a string or a list of them", lambda v: _is_text(v) or _is_list(v, _is_text)),
    "designs": Kind("a list of lists", lambda v: _is_list(v, lambda one: _is_list(one, ANY.fits))),
    **dict.fromkeys(("path", "out", "store", "scheduler_file"), PATH),
    **dict.fromkeys(("metric", "along", "over", "x", "y", "shard", "style", "title"), TEXT),
    **dict.fromkeys(("read", "factors"), TEXTS),
    "overrides": OVERRIDES,
    "objectives": OBJECTIVES,
    **dict.fromkeys(("seeds", "workers", "sample", "order", "resamples"), WHOLE),
    **dict.fromkeys(("confidence", "threshold", "wait"), NUMBER),
    **dict.fromkeys(("verify", "processes", "overwrite", "extend", "dark"), SWITCH),
    **dict.fromkeys(("keep_requests", "prune"), SWITCH),
    **dict.fromkeys(("progress", "notify"), CALLED),
    # Dask's objects, which are known where Dask is loaded.
    **dict.fromkeys(("scheduler", "client"), ANY),
}


# Options whose arguments have the same names, and the others.
_SAME = "workers|scheduler-file|scheduler|wait|shard|out|folder|sample|seeds"
_SWITCHES = {
    "overwrite": "overwrite=True",
    "extend": "extend=True",
    "processes": "processes=True",
    "requests": "keep_requests=True",
    "no-prune": "prune=False",
}
_LISTS = {"set": "overrides", "read": "read"}
_PAIR = r"(?:'[^']*'|[^\s'=]+=[^\s,;]*[^\s,;:])"
_OPTION = re.compile(
    rf"(?P<command>`[^`]*`)|--(?P<list>set|read)(?P<key>(?= [^\s=]+:))?"
    rf"(?P<pairs> {_PAIR}(?: --(?P=list) {_PAIR})*)?"
    rf"|--(?P<switch>{'|'.join(_SWITCHES)})\b|--(?P<same>{_SAME})\b(?P<number> N\b)?"
)


def in_python(message: str) -> str:
    """Name arguments of public functions where a message names options of commands.

    Examples
    --------
    >>> in_python("--wait: needs --scheduler; see `kvsweep grid --out OTHER`")
    'wait: needs scheduler; see `kvsweep grid --out OTHER`'
    >>> in_python("choose one, as by --set policy=base --set seed=0")
    "choose one, as by overrides=['policy=base', 'seed=0']"
    """
    return _OPTION.sub(_argument, message)


def _argument(found: re.Match[str]) -> str:
    if found["command"]:
        return found["command"]
    if found["switch"]:
        return _SWITCHES[found["switch"]]
    if found["same"]:
        return found["same"].replace("-", "_") + ("=N" if found["number"] else "")
    name = _LISTS[found["list"]]
    if found["pairs"]:
        pairs = re.split(rf" --{found['list']} ", " " + found["pairs"].strip())
        return f"{name}={[pair.strip().strip(chr(39)) for pair in pairs]}"
    return f"{name}:" if found["key"] is not None else name


def _told(value: object) -> str:
    """Write an argument as Python has it, where `shown` writes what files have."""
    if value is None or isinstance(value, bool):
        return str(value)
    if "\n" in repr(value) and not isinstance(value, str | list | tuple):  # datasets, tables
        return f"a {type(value).__name__}"
    if isinstance(value, list | tuple):  # one was wanted, but not of these
        kinds = ", ".join(sorted({type(one).__name__ for one in value}))
        return f"a {type(value).__name__} of {kinds}" if kinds else repr(value)
    return "a dict" if isinstance(value, dict) else shown(value)


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Let a public function refuse arguments of the wrong kind, in one line that names them.

    NumPy's numbers reach it as Python's, and its messages name arguments.
    """
    parameters = signature(function).parameters

    def plain(name: str, value: Any) -> Any:
        if name not in parameters or value is parameters[name].default:
            return value
        kind = ARGUMENTS[name]
        if not kind.fits(value):
            raise InputError(f"{name}: expected {kind.words}, got {_told(value)}")
        return kind.plain(value)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        named = [plain(name, value) for name, value in zip(parameters, args, strict=False)]
        rest = args[len(named) :]
        options = {name: plain(name, value) for name, value in kwargs.items()}
        try:
            return function(*named, *rest, **options)  # type: ignore[arg-type]
        except InputError as error:
            error.args = (in_python(error.for_command),)
            raise
        except FileNotFoundError as error:
            if folder_is_gone(error):
                raise InputError(FOLDER_GONE) from error
            raise

    return call
