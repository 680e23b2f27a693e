"""The replica's entry: a scenario and a request list in, a `Replication` out."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kvsweep.errors import InputError
from kvsweep.replica import metrics, result, scenario
from kvsweep.replica.cluster import Cluster
from kvsweep.replica.errors import ReferencePanic
from kvsweep.replica.keys import Keys
from kvsweep.replica.request import Request, from_trace
from kvsweep.replica.result import Replication


def run(
    settings: Mapping[str, Any], requests: Sequence[dict[str, Any]], *, steps: bool = False
) -> Replication:
    """Run the reference's rules on a request list.

    Parameters
    ----------
    settings : dict
        The ``scenario`` of a trace (kvsweep-trace/1) with ``engine.rules = "blis"``; absent keys
        have their defaults, ``engine.blis`` is as shipped at commit B.
    requests : list of dict
        The ``requests`` of a trace.
    steps : bool
        Whether to keep a log of all steps.

    Returns
    -------
    Replication
        Always, also where the reference would crash or never end: see its ``status``.

    Raises
    ------
    InputError
        If the scenario or a request is malformed.
    """
    parsed = scenario.read(settings)
    cluster = scenario.build(parsed, Keys())
    if steps:
        for instance in cluster.instances:
            instance.log = []
    jobs = [_parse(i, entry) for i, entry in enumerate(requests)]
    status, detail = "ok", ""
    try:
        cluster.run(jobs)
    except ReferencePanic as panic:
        status, detail = "failed", f"the reference crashes, defect {panic}"
    totals = metrics.totals(cluster, jobs)
    replication = result.collect(cluster, jobs, totals, status, detail)
    if status == "ok" and any(cluster.stuck):
        return _livelock(replication, cluster, len(jobs))
    return replication


def _parse(index: int, entry: dict[str, Any]) -> Request:
    for key in ("after", "patience_us"):
        if entry.get(key) is not None:
            raise InputError(
                f"requests[{index}].{key}: rules 'blis' has fixed arrivals and no impatient clients"
            )
    try:
        return from_trace(index, entry)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"requests[{index}]: {error!r}") from None


def _livelock(replication: Replication, cluster: Cluster, requests: int) -> Replication:
    """Return the same run with status ``livelock`` and the evidence."""
    stuck = [i for i, is_stuck in enumerate(cluster.stuck) if is_stuck]
    totals = replication.totals
    evidence = (
        f"instances {stuck} repeat the same steps for ever; {totals.completed} of {requests} "
        f"requests completed, last useful step ended at {replication.last_useful_us} us, "
        f"{totals.preemptions} preemptions so far, {replication.leaked_blocks} blocks leaked"
    )
    return replace(replication, status="livelock", status_detail=evidence)
