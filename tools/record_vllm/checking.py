"""Many recordings: made again and compared, or compared as they are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvsweep.cli.outputs import refuse_existing
from kvsweep.errors import InputError, did_you_mean, shown
from record_vllm.cases import make_case
from record_vllm.comparing import Comparison, compare
from record_vllm.features import FEATURES
from record_vllm.traces import Document, load, load_recording, recording_of, save

if TYPE_CHECKING:
    from record_vllm.adapter import Vllm

NAMES = ("*.json", "*.json.gz")


@dataclass(frozen=True)
class Checked:
    """One trace: what differs, or why there is nothing to compare."""

    name: str
    comparison: Comparison | None
    error: str | None = None


Tell = Callable[[Checked], None] | None


def add_row(say: Callable[[str], None]) -> Callable[[Checked], None]:
    """Return what prints one trace as it is done."""

    def tell(checked: Checked) -> None:
        if checked.comparison is None:
            say(f"{checked.name}: NOT RECORDED: {checked.error}")
        elif not checked.comparison.equal:
            say(f"{checked.name}: DIFFERS in {', '.join(checked.comparison.columns)}")
            for difference in checked.comparison.first:
                say(f"    {difference}")

    return tell


def recording_plan(trace: Path, out: Path) -> list[tuple[Path, Path]]:
    """Return what to record and where to: a file into a file, the files of a folder into one.

    Raises
    ------
    InputError
        If one is a file and the other a folder, or a recording would take the place of a trace.
    """
    if trace.is_dir():
        if out.is_file():
            raise InputError(f"--out {out}: is a file; the traces of {trace} need a folder")
        pairs = [(path, out / name) for path, name in _files([trace])]
    elif out.is_dir():
        raise InputError(f"--out {out}: is a folder; name a file in it")
    else:
        pairs = [(trace, out)]
    for path, target in pairs:
        if target.resolve() == path.resolve():
            raise InputError(f"--out {out}: would replace {path}, which is read")
    return pairs


def record_file(vllm: Vllm, trace: Path, out: Path, *, detail: bool) -> dict[str, int]:
    """Record one trace into a file, and return its totals.

    Raises
    ------
    InputError
        As `record_vllm.recording.record`, or if `out` cannot be written.
    """
    from record_vllm.recording import record

    recorded = record(vllm, load(trace), str(trace), detail=detail)
    make_folder(out.parent)
    save(out, recorded)
    totals: dict[str, int] = recorded["expected"]["totals"]
    return totals


def check_all(
    vllm: Vllm,
    traces: Sequence[Path],
    out: Path | None,
    tell: Tell = None,
    *,
    overwrite: bool = False,
) -> list[Checked]:
    """Record traces again and compare each with its own ``expected``.

    Parameters
    ----------
    vllm : Vllm
        The release that decides.
    traces : sequence of Path
        Files, and folders of such.
    out : Path or None
        Folder for the new recordings, laid out as the folders of `traces`.
    tell : callable or None
        Gets each as it is done.
    overwrite : bool
        Whether files of `out` may be replaced.

    Raises
    ------
    InputError
        If a file is no recording, or `out` cannot be written.
    """
    if out is not None:
        _check_places(traces, out, overwrite)
    files = list(_files(traces))
    documents = ((path, name, load(path)) for path, name in files)
    checked = []
    for path, name, document in documents:
        one = _check(vllm, document, path, out / name if out else None)
        checked.append(one)
        if tell:
            tell(one)
    return checked


def _check_places(traces: Sequence[Path], out: Path, overwrite: bool) -> None:
    """Refuse to lose a file by writing the new recordings, whose places follow from `traces`.

    Raises
    ------
    InputError
        If one would take the place of what is read, of another one, or, unless it was asked for,
        of a file that is there.
    """
    taken: dict[Path, Path] = {}
    for path, name in _files(traces):
        if (out / name).resolve() == path.resolve():
            raise InputError(f"--out {out}: would replace {path}, which is read")
        if name in taken:
            raise InputError(f"--out {out}: {taken[name]} and {path} would both be {out / name}")
        taken[name] = path
        refuse_existing("--out", out / name, overwrite)


def _check(vllm: Vllm, document: Document, path: Path, out: Path | None) -> Checked:
    from record_vllm.recording import record

    before = recording_of(document, str(path))
    try:
        after = record(vllm, document, str(path))
    except InputError as error:
        return Checked(str(path), None, str(error).removeprefix(f"{path}: "))
    if out is not None:
        make_folder(out.parent)
        save(out, after)
    # As a file has it: tuples are lists there.
    return Checked(str(path), compare(before, json.loads(json.dumps(after["expected"]))))


def compare_folders(before: Path, after: Path, tell: Tell = None) -> list[Checked]:
    """Compare two files, or the files of the same name in two folders.

    Raises
    ------
    InputError
        If one is no recording, or both folders have nothing in common.
    """
    if before.is_dir() != after.is_dir():
        raise InputError(f"{after}: two files or two folders can be compared, not one of each")
    if before.is_dir():
        pairs = [(path, after / name, name) for path, name in _files([before])]
    else:
        pairs = [(before, after, after)]
    checked = []
    for old, new, name in pairs:
        if before.is_dir() and not new.is_file():
            one = Checked(str(name), None, f"{new}: is not there")
        else:
            one = Checked(str(name), compare(load_recording(old), load_recording(new)))
        checked.append(one)
        if tell:
            tell(one)
    return checked


def _files(paths: Iterable[Path]) -> Iterable[tuple[Path, Path]]:
    """Yield the files of paths, and the name of each below the folder that was given."""
    for path in paths:
        if not path.is_dir():
            yield path, Path(path.name)
            continue
        found = sorted({file for name in NAMES for file in path.rglob(name)})
        if not found:
            raise InputError(f"{path}: has no {' and no '.join(NAMES)}")
        for file in found:
            yield file, file.relative_to(path)


def report(checked: Sequence[Checked]) -> dict[str, Any]:
    """Return what was found, as JSON has it, with a line of summary."""
    compared = [one for one in checked if one.comparison is not None]
    equal = sum(one.comparison.equal for one in compared if one.comparison)
    failed = len(checked) - len(compared)
    summary = f"{equal} of {len(checked)} recordings are equal, {len(compared) - equal} differ"
    return {
        "equal": equal,
        "differ": len(compared) - equal,
        "not_recorded": failed,
        "summary": summary + (f", {failed} could not be recorded" if failed else ""),
        "recordings": [_row(one) for one in checked],
    }


def _row(one: Checked) -> dict[str, Any]:
    if one.comparison is None:
        return {"name": one.name, "error": one.error}
    return {
        "name": one.name,
        "columns": one.comparison.columns,
        "first": [str(difference) for difference in one.comparison.first],
        "not_compared": one.comparison.left_out,
    }


def make_folder(folder: Path) -> None:
    """Make a folder and those above it.

    Raises
    ------
    InputError
        If it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made: {error.strerror}") from None


def write_cases(feature: str, seeds: range, folder: Path) -> int:
    """Write the random cases of some seeds, ``FEATURE-SEED.json.gz``, and return their number.

    Raises
    ------
    InputError
        If there is no such feature, or no seed.
    """
    if not seeds:
        raise InputError(f"FIRST LAST: {seeds.start} {seeds.stop - 1}: LAST is before FIRST")
    if feature not in FEATURES:
        hint = did_you_mean(feature, list(FEATURES)) or f"; one of: {', '.join(FEATURES)}"
        raise InputError(f"FEATURE: {shown(feature)} is none{hint}")
    for seed in seeds:
        save(folder / f"{feature}-{seed}.json.gz", make_case(feature, seed))
    return len(seeds)
