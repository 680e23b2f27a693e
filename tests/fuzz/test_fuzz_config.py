"""Whatever a sweep file or an option says: it runs, or one line says what is wrong.

`KVSWEEP_FUZZ` is the number of inputs of each kind; a failure names its own, to be run again.
"""

import os
import random
import tomllib
import warnings

import numpy as np
import pytest
from longer import long_but

from fuzz.extremes import extreme
from fuzz.sweeps import SEEDS, as_toml, mutated, option, smaller
from kvsweep.config import load_sweep
from kvsweep.errors import InputError
from kvsweep.grid import plan
from kvsweep.policies import RequestStatus, Status
from kvsweep.simulate import simulate_batch

pytestmark = pytest.mark.slow

INPUTS = int(os.environ.get("KVSWEEP_FUZZ", "300"))
FIRST = int(os.environ.get("KVSWEEP_FUZZ_FIRST", "0"))
LONGEST_MESSAGE = 3000
# More scenarios than these are not built here, as each takes time that says nothing.
MOST_SCENARIOS = 300
ENDS = [label for label in RequestStatus.labels() if label != RequestStatus.NOT_ARRIVED.label]


def attempt(path, options, seeds):
    """Load and plan a sweep; return the message if it is refused."""
    try:
        sweep = load_sweep(path, options, seeds)
        size = np.prod([len(axis.values) for axis in sweep.axes if axis.key != "seed"], dtype=float)
        if size <= MOST_SCENARIOS:
            plan(sweep)
    except InputError as error:
        return str(error)
    return None


@pytest.mark.parametrize("start", long_but(range(FIRST, FIRST + INPUTS, 100), FIRST))
def test_mutated_sweeps_and_options_run_or_are_refused_in_one_line(tmp_path, start):
    accepted = 0
    for number in range(start, min(start + 100, FIRST + INPUTS)):
        rng = random.Random(number)
        original = rng.choice(SEEDS)
        values = smaller(tomllib.loads(original.read_text()))
        options = [option(rng) for _ in range(rng.choice((0, 0, 1, 1, 2)))]
        if not options or rng.random() < 0.4:
            values = mutated(rng, values)
        file = tmp_path / "mutated.toml"
        file.write_text(as_toml(values))
        seeds = rng.choice((None, None, None, 1, 2, 3, 10**6, 0, -1, 2**70))
        message = attempt(file, options, seeds)
        accepted += message is None
        if message is not None:
            assert "\n" not in message.replace(str(tmp_path), ""), (number, message)
            assert len(message) < LONGEST_MESSAGE, (number, message)
    print(f"{accepted} accepted")


@pytest.mark.parametrize("start", long_but(range(FIRST, FIRST + INPUTS, 50), FIRST))
def test_extreme_scenarios_conserve_requests_and_stay_finite(tmp_path, start):
    ended = {}
    for number in range(start, min(start + 50, FIRST + INPUTS)):
        file = tmp_path / "extreme.toml"
        file.write_text(as_toml(extreme(random.Random(number))))
        try:
            sweep = load_sweep(file)
            plan(sweep)
            scenario = sweep.scenario({})
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                found = simulate_batch(
                    [scenario], [0, 1], entropy=1, policies=[None], base_dir=None
                )
        except InputError as error:
            ended[str(error).partition(": ")[2][:40]] = number
            continue
        check(scenario, found, number)
        for status in found["status"].flat:
            ended[Status(status).label] = ended.get(Status(status).label, 0) + 1
    print(ended)
    assert ended.get("ok", 0) > 0


def check(scenario, found, number):
    """Check what holds of every cell that ended well."""
    for at in np.argwhere(found["status"] == Status.OK):
        cell = {name: values[tuple(at)] for name, values in found.items()}
        # -1 is none: a replica has no pulls, and so none that failed
        assert cell["injected"] == sum(max(cell[label], 0) for label in ENDS), number
        for name, value in cell.items():
            if name in ("status", "status_detail"):
                continue
            value = np.asarray(value, np.float64)
            assert not np.isinf(value).any(), (number, name)
            negative = np.issubdtype(found[name].dtype, np.integer) or name == "queue_growth"
            assert not (value < (-1 if negative else 0)).any(), (
                number,
                name,
            )
        assert cell["peak_blocks"].max() <= scenario.cache.gpu_blocks, number
        for name in ("prefix_hit_rate", "block_hit_rate", "preempted_fraction"):
            assert not cell[name] > 1, (number, name)
    for at in np.argwhere(found["status"] != Status.OK):
        assert found["status_detail"][tuple(at)] != ""
        assert "bug" not in found["status_detail"][tuple(at)], number
