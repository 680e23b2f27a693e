"""The run of a trace, on the kind of cluster that it asks for."""

from .cluster import Cluster
from .explicit.request import ExplicitRequest
from .explicit.roles import RoleCluster
from .request import Request
from .scenario import Scenario


def simulate(trace, check=False):
    """Run a trace (``kvsweep-trace/1``) under the rules of vLLM.

    Parameters
    ----------
    trace : dict
        Only ``scenario`` and ``requests`` are read.
    check : bool
        Assert the invariants of `checks` after every step of every instance.

    Returns
    -------
    Result
        Lists of `request.Request` and `instance.Instance`; times in integer microseconds.

    Raises
    ------
    StepLimit
        The rules allow a livelock: under the priority scheduler, requests with equal priority and
        arrival preempt the one that has got furthest, in turns. It needs prefills over several
        steps, and blocks that neither the reservation nor the cache protects.
    """
    scenario = Scenario.of(**trace.get("scenario", {}))
    apart = scenario.cluster.of_role("prefill") is not None
    kind = ExplicitRequest if apart or scenario.is_explicit else Request
    requests = [
        kind.of(i, row, scenario.engine.priority) for i, row in enumerate(trace["requests"])
    ]
    return (RoleCluster if apart else Cluster)(requests, scenario, check).run()
