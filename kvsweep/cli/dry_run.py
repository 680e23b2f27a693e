"""``kvsweep grid --dry-run``: what a run would take, of which nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import thread_time
from typing import TYPE_CHECKING, Any

from kvsweep.cli.base import print_json
from kvsweep.cli.progress import span, waiting
from kvsweep.cli.terminal import echo
from kvsweep.errors import InputError
from kvsweep.processors import usable_processors

if TYPE_CHECKING:
    from kvsweep.addresses import Where
    from kvsweep.config import Scenario, Sweep
    from kvsweep.grid import Plan
    from kvsweep.store import Share

# Lines of one kind, at most.
NAMED = 10
# How often as long as alone a simulation takes from which on a dry run tells that.
BUSY = 1.5


def sizes_of(sweep: Sweep, path: Where, options: dict[str, Any]) -> dict[str, Any]:
    """Return what a run would take, as `size_of`; of seeds ``until`` an interval is narrow, twice.

    Then ``until`` has what is asked for, and what it takes if all of the seeds are needed.
    """
    asked = sweep.until
    if asked is None:
        return size_of(sweep, path, options)
    from kvsweep.seeding import refuse_shard, seeds_there
    from kvsweep.store import exists, real_path

    refuse_shard(options["shard"])
    first = asked.least if options["overwrite"] else seeds_there(real_path(path), asked)
    grows = exists(path) and not options["overwrite"]
    most = max(first, asked.most)
    size = size_of(sweep.with_seeds(first), path, options)
    whole = size_of(sweep.with_seeds(most), path, options | {"extend": grows})
    wanted = ("simulations", "seconds", "seconds_low", "seconds_high")
    size["until"] = {"asked": str(asked), "seeds": first, "most": most, "allowed": asked.most}
    size["until"] |= {key: whole[key] for key in wanted}
    return size


def size_of(sweep: Sweep, path: Where, options: dict[str, Any]) -> dict[str, Any]:
    """Return what a run would take: cells, simulations still to do, bytes, seconds.

    Some cells are simulated to tell the seconds; nothing is written.
    """
    from kvsweep.forecast import forecast
    from kvsweep.grid import plan
    from kvsweep.store import Share, check_overwritable
    from kvsweep.workers.choosing import check_workers

    count, asked = options["workers"], ("processes", "scheduler", "scheduler_file", "wait")
    check_workers(count, **{key: options[key] for key in asked})
    share = Share.asked(options["shard"], overwrite=options["overwrite"], extend=options["extend"])
    _refuse_below_a_file(path)
    if options["overwrite"]:
        check_overwritable(path)
    begun = thread_time()
    with waiting(preparing_text(sweep)):
        cells = plan(sweep, keep_requests=options["keep_requests"])
    planning = thread_time() - begun
    tasks, simulations = _left(sweep, path, cells, share, options)
    # Those of a scheduler come and go; it is not asked.
    remote = any(options[key] is not None for key in ("scheduler", "scheduler_file"))
    workers = None if remote else options["workers"] or usable_processors()
    expected = forecast(
        sweep,
        cells,
        simulations=simulations,
        tasks=tasks,
        workers=workers or 1,
        processes=options["processes"],
        prune=options["prune"],
        planning=planning,
    )
    return {
        "store": str(path),
        "dims": dict(zip(cells.dims, cells.shape, strict=True)),
        "cells": cells.cells,
        "simulations": simulations,
        "tasks": tasks,
        "bytes": cells.bytes,
        **_texts(sweep, cells),
        "workers": workers,
        "seconds": expected.seconds,
        "seconds_low": expected.low,
        "seconds_high": expected.high,
        "cells_tried": expected.tried,
        "compile_seconds": expected.compiling,
        "busy": expected.busy,
        "processor_seconds": expected.processor,
    }


def _refuse_below_a_file(path: Where) -> None:
    """Refuse a place that no run can write to."""
    above = path.parents if isinstance(path, Path) else ()
    if (file := next((each for each in above if each.is_file()), None)) is not None:
        raise InputError(f"{path}: cannot be written: {file} is a file, not a folder")


def _left(
    sweep: Sweep, path: Where, cells: Plan, share: Share | None, options: dict[str, Any]
) -> tuple[int, int]:
    """Return the tasks that a run would still do, and their simulations."""
    from kvsweep.enlarging import extension
    from kvsweep.simulate import source_hash
    from kvsweep.store import exists, pending

    stored = {key: options[key] for key in ("keep_requests", "prune")}
    todo = cells.tasks
    known = extension(path, sweep, cells, **stored) if options["extend"] else None
    if known is None and exists(path) and not options["overwrite"]:
        todo = tuple(pending(path, sweep, cells, source_hash(), **stored))
    if share is not None:
        share.check(len(cells.tasks))
        todo = tuple(task for task in todo if share.has(task.index))
    return len(todo), sum(map(cells.size if known is None else known.simulations, todo))


def _of_tier(scenario: Scenario) -> tuple[Any, ...]:
    """Return what tells the speed of a CPU tier, which many variants have in common."""
    cache = scenario.cache
    made = cache.transfer_bandwidth, cache.link_gb_per_s, cache.link, cache.kv_bytes_per_token
    sides = repr([scenario.cluster.prefill, scenario.cluster.decode])
    return (*made, len(cache.groups), scenario.latency.model, sides)


def _texts(sweep: Sweep, cells: Plan) -> dict[str, Any]:
    """Return what is told of the models, tiers and defaults of a sweep."""
    from kvsweep.config.served_text import defaults_text, model_texts, models_left
    from kvsweep.config.transfer import pull_text, tier_text
    from kvsweep.search.server_model import start_text

    with_tier = {_of_tier(each): each for each in cells.variants if each.cache.cpu_blocks > 0}
    tiers = (tier_text(each, sweep.base_dir) for each in with_tier.values())
    apart = (each for each in cells.variants if each.cluster.kv_transfer_bandwidth is not None)
    pulls = (pull_text(each, sweep.base_dir) for each in apart)
    return {
        "traces": _left_out(sweep),
        "transfers": list(dict.fromkeys([*tiers, *pulls])),
        "models": model_texts(sweep),
        "models_left": models_left(sweep),
        "defaults": told(defaults_text, sweep),
        "cautions": [*_unknown_times(sweep), *filter(None, [start_text(sweep)])],
    }


def _unknown_times(sweep: Sweep) -> list[str]:
    """Return what the step times of a sweep's models leave out."""
    from kvsweep.config.served_text import exchange_text, stages_text, states_text

    writers = (states_text, stages_text, exchange_text)
    return [text for write in writers for text in told(write, sweep)]


def tell_models(sweep: Sweep) -> None:
    """Print to stderr what follows from the models of a searched sweep, as a dry run has it.

    Such a sweep may never have been run, nor tried: blocks that are estimated and step times that
    are computed would go unsaid.
    """
    tell_blocks(sweep)
    tell_left_out(sweep)
    for text in _unknown_times(sweep)[:NAMED]:
        echo(f"caution: {text}", err=True)


def tell_blocks(sweep: Sweep) -> None:
    """Print to stderr the blocks and step times of a sweep's models, those of the first of many."""
    from kvsweep.config.served_text import model_texts, models_left

    texts = model_texts(sweep)
    for text in texts[:NAMED]:
        echo(f"model: {text}", err=True)
    if texts and (more := _more(texts, models_left(sweep))):
        echo(f"model: {more}", err=True)


def tell_left_out(sweep: Sweep) -> None:
    """Print to stderr which requests of the files of a sweep's traces are not simulated."""
    for text in _left_out(sweep):
        echo(f"trace: {text}", err=True)


def _left_out(sweep: Sweep) -> list[str]:
    from kvsweep.analysis.planned import left_out_texts

    with waiting(preparing_text(sweep)):
        return left_out_texts(sweep)


def _more(models: list[str], left: int) -> str:
    """Say how many combinations are not told, of which the texts of models depend."""
    more = left + len(models[NAMED:])
    them = "combination" if more == 1 else "combinations"
    return f"and {more:,} more {them} of what it depends on" if more else ""


def preparing_text(sweep: Sweep) -> str:
    """Say what comes before the first cells, if a trace is read: only that may take minutes."""
    trace = sweep.base.get("workload", {}).get("trace")
    return f"preparing the sweep, which reads {trace}" if trace else ""


def told(write: Callable[[Scenario, Path], str | None], sweep: Sweep) -> list[str]:
    """Return what is to be said of a sweep's scenarios, each text once."""
    texts = (write(scenario, sweep.base_dir) for scenario in sweep.probes())
    return list(dict.fromkeys(text for text in texts if text))


def print_size(size: dict[str, Any], as_json: bool) -> None:
    """Print what a run would take."""
    if as_json:
        print_json(size)
        return
    dims = " x ".join(f"{name} {n:,}" for name, n in size["dims"].items())
    tasks = "1 task" if size["tasks"] == 1 else f"{size['tasks']:,} tasks"
    echo(f"store        {size['store']}")
    echo(f"dimensions   {dims}")
    echo(f"cells        {size['cells']:,}")
    echo(f"simulations  {size['simulations']:,} to do, in {tasks}")
    echo(f"bytes        {size['bytes']:,} before compression")
    for text in size["traces"][:NAMED]:
        echo(f"trace        {text}")
    for text in size["transfers"][:NAMED]:
        echo(f"transfers    {text}")
    for text in size["models"][:NAMED]:
        echo(f"model        {text}")
    if size["models"] and (more := _more(size["models"], size["models_left"])):
        echo(f"             {more}")
    for text in size["defaults"][:NAMED]:
        echo(f"             {text}")
    for text in size["cautions"][:NAMED]:
        echo(f"caution      {text}")
    on = "one worker of the scheduler" if size["workers"] is None else f"{size['workers']} workers"
    ends = f"{span(size['seconds_low'])} to {span(size['seconds_high'])}"
    echo(f"time         about {span(size['seconds'])} ({ends}) on {on}")
    if "until" in size:
        _print_until(size["until"])
    if size["busy"] >= BUSY:
        idle = span(size["seconds"] / size["busy"])
        echo(f"             the machine is busy now: were it idle, about {idle}")
    if size["compile_seconds"]:
        echo(
            f"             {span(size['compile_seconds'])} of it to compile the kernel, which the "
            "first run does; after it a dry run tells more, as it simulates some cells"
        )


def _print_until(until: dict[str, Any]) -> None:
    if until["seeds"] > until["allowed"]:
        most = f"most = {until['allowed']:,}"
        echo(f"seeds        {until['seeds']:,}, as the store has; {most} allows no more")
        return
    echo(f"seeds        {until['seeds']:,}, and more until {until['asked']} is known in all cells")
    ends = f"{span(until['seconds_low'])} to {span(until['seconds_high'])}"
    echo(
        f"             with {until['most']:,}, the most: {until['simulations']:,} simulations, "
        f"about {span(until['seconds'])} ({ends})"
    )
