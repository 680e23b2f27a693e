"""The kernel's routing without its engine: what the router sees goes in, whom it chooses out."""

import numpy as np

from kvsweep._jit import kernel
from kvsweep.kernel.routing.admission import is_admitted
from kvsweep.kernel.routing.choose import choose_instance
from kvsweep.kernel.setup import begin_lane
from kvsweep.records import NONE
from kvsweep.simulate.batch import build_inputs
from kvsweep.simulate.list_records import prepare
from kvsweep.simulate.workspace import allocate_outputs, allocate_workspace
from kvsweep.workload.blocks import resolve_blocks

SEEN = {"load": np.int64, "utilization": np.float64, "transfer": np.int64, "thrashing": np.float64}
"""What a router sees of each instance, by name."""


@kernel
def _choose_all(inp, ws, out, load, utilization, transfer, thrashing, chosen):
    lane = inp.lanes[0]
    begin_lane(inp, ws, lane, out.tallies[0])
    for r in range(lane["requests"]):
        chosen[r] = NONE
        if is_admitted(inp, ws, lane, out.tallies[0], r):
            for index in range(lane["instances"]):
                snapshot = ws.snapshots[index]
                snapshot["load"] = load[r, index]
                snapshot["utilization"] = utilization[r, index]
                snapshot["transfer"] = transfer[r, index]
                snapshot["thrashing"] = thrashing[r, index]
            chosen[r] = choose_instance(inp, ws, lane, out.tallies[0], r)


def choose(scenario, requests, seen, times=1):
    """Return the instance that the kernel chooses for each request, -1 for those it rejects.

    Parameters
    ----------
    scenario : Scenario
        Its cluster and block size count.
    requests : Requests
        The request list, routed in this order.
    seen : dict of str to array (requests, instances)
        What the router sees at each decision, by name of `SEEN`.
    times : int
        Do it so often in the same workspace, and return what was chosen last.
    """
    prepared = prepare(requests, resolve_blocks(requests, scenario.cache.block_size))
    inputs = build_inputs([scenario], [prepared], np.zeros((1, 1), np.int64))
    workspace, outputs = allocate_workspace(inputs, 1), allocate_outputs(inputs)
    columns = [np.ascontiguousarray(seen[name], dtype) for name, dtype in SEEN.items()]
    chosen = np.empty(len(requests), np.int64)
    for _ in range(times):
        _choose_all(inputs, workspace, outputs, *columns, chosen)
    return chosen.tolist()
