"""The workspace is as large as the kernel's indices say, and says so itself."""

import batches
import numpy as np

from kvsweep.kernel.memory import WORD, workspace_sizes
from kvsweep.records import LANE, Workspace
from kvsweep.simulate.workspace import allocate_workspace

OTHERS = {"seen", "router", "itl_time", "itl_weight", "itl_order", "itl_digits"}
"""Arrays whose size no lane decides, beside those of blank records."""


def test_every_array_of_the_workspace_has_a_size():
    sizes = workspace_sizes(np.zeros(1, LANE))
    blanks = {name for name in Workspace._fields if name.startswith("blank_")}
    assert set(sizes) == set(Workspace._fields) - OTHERS - blanks


def test_arrays_are_as_large_as_the_largest_lane_needs():
    """Not the lane with the most instances, or blocks: each array's own largest."""
    inputs = batches.inputs_of(batches.random_traces(range(20)))
    workspace = allocate_workspace(inputs, 1)
    alone = [workspace_sizes(inputs.lanes[i : i + 1]) for i in range(len(inputs.lanes))]
    for name in alone[0]:
        most = max(int(need[name][0]) for need in alone)
        assert len(getattr(workspace, name)) == max(1, most), name


def test_each_shared_prompt_extent_has_whole_words_of_instances():
    lanes = np.zeros(4, LANE)
    lanes["instances"] = [1, WORD, WORD + 1, 2 * WORD + 1]
    lanes["prompt_shared"] = 10
    assert workspace_sizes(lanes)["holders"].tolist() == [10, 10, 20, 30]
