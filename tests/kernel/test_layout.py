"""What is remembered of scenarios between batches."""

import batches
import numpy as np

from kvsweep.config import DEFAULT_ENTROPY
from kvsweep.simulate import layout, simulate_batch


def scenarios(*counts):
    return tuple(batches.scenario({"cache": {"gpu_blocks": count}}) for count in counts)


def test_the_same_scenarios_are_laid_out_once():
    one, two = scenarios(100, 200)
    assert layout.lay_out((one, two)) is layout.lay_out((one, two))
    assert layout.lay_out((two, one)) is not layout.lay_out((one, two))
    assert layout.lay_out((two, one)).lanes["gpu_blocks"].tolist() == [200, 100]


def test_equal_scenarios_are_laid_out_each():
    first, second = (layout.lay_out(scenarios(100, 200)) for _ in range(2))
    assert first is not second
    assert first.lanes.tobytes() == second.lanes.tobytes()


def test_only_the_last_few_are_remembered():
    calls = []
    remembering = layout.kept(lambda made: calls.append(made) or len(made))
    many = [scenarios(100) for _ in range(layout._KEPT + 1)]
    for made in many:
        assert remembering(made) == 1
    remembering(many[-1])
    assert len(calls) == len(many)
    remembering(many[0])
    assert len(calls) == len(many) + 1


def test_a_batch_leaves_nothing_behind_for_the_next():
    made = scenarios(60, 120, 5000)

    def run(prune):
        return simulate_batch(
            made, range(3), entropy=DEFAULT_ENTROPY, policies=[None] * 3, base_dir=None, prune=prune
        )

    first = run(True)
    run(False)
    again = run(True)
    for name, values in first.items():
        np.testing.assert_array_equal(again[name], values, err_msg=name)
