"""How far off `--dry-run` is: processor seconds promised and taken, of every shipped sweep.

Processor time, as the clock tells more of what else the machine does than of the sweep.

    python tools/forecast_check.py --seeds 2            # all, a few minutes
    python tools/forecast_check.py --only h8 --only h377
    python tools/forecast_check.py --only none --file mooncake.toml
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[1]


def grid(sweep: Path, *options: str) -> tuple[str, float]:
    """Run ``kvsweep grid``; return what it printed, and the processor seconds it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "kvsweep", "grid", str(sweep), "--json", *options]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ended.returncode not in (0, 1) or not ended.stdout:  # 1: some cells did not complete
        told = " ".join(ended.stderr.split()) or f"ended with {ended.returncode}"
        raise click.ClickException(told)
    return ended.stdout, sum(
        getattr(after, name) - getattr(before, name) for name in ("ru_utime", "ru_stime")
    )


@click.command()
@click.option("--seeds", type=int, help="Of each sweep [its own].")
@click.option("--only", multiple=True, help="Names of shipped sweeps [all].")
@click.option("--file", "files", multiple=True, type=Path, help="Other sweeps.")
def main(seeds: int | None, only: tuple[str, ...], files: tuple[Path, ...]) -> None:
    """Print a row for each sweep."""
    shipped = sorted((ROOT / "sweeps").glob("*.toml"))
    for name in only:
        if name not in ("none", *(sweep.stem for sweep in shipped)):
            raise click.BadParameter(f"no shipped sweep is called {name!r}", param_hint="--only")
    click.echo("| sweep | simulations | promised, s | taken, s | promised / taken |")
    click.echo("|---|---|---|---|---|")
    for sweep in [*(s for s in shipped if not only or s.stem in only), *files]:
        options = [] if seeds is None else ["--seeds", str(seeds)]
        with tempfile.TemporaryDirectory() as folder:
            options += ["--out", f"{folder}/{sweep.stem}.zarr"]
            try:
                told = json.loads(grid(sweep, "--dry-run", *options)[0])
                _, taken = grid(sweep, *options)
            except click.ClickException as error:
                click.echo(f"| {sweep.stem} | {error.message.strip()} | | | |")
                continue
        promised = told["processor_seconds"]
        click.echo(
            f"| {sweep.stem} | {told['simulations']:,} | {promised:.1f} | {taken:.1f} | "
            f"{promised / taken:.2f} |"
        )


if __name__ == "__main__":
    main()
