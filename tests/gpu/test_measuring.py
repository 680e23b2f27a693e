"""The measurement on a device whose clock is known: stored, interrupted, gone on with."""

import gc

import numpy as np
import pytest
from fake_steps import ATTRIBUTES, HEAD_US, LAYER, FakeSteps
from longer import long_but

from kvsweep.errors import InputError
from kvsweep.gpu.batches import Ranges, plan
from kvsweep.gpu.measuring import measure_steps
from kvsweep.gpu.step_store import BATCHES, FORMAT, HELD_OUT, LAYERS, MAKER, TIMES
from kvsweep.store import open_dataset, save_dataset

PLAN = plan(Ranges(256, 8, 512, 2048), trials=2, rungs=3, seed=0)
TIMINGS = 2 * 2 * len(PLAN.batches)


def test_every_timing_is_entered_at_its_part_batch_and_trial():
    ds = measure_steps(FakeSteps(noise=0.0), PLAN)
    sums = np.array([batch.sums for batch in PLAN.batches])
    for part, coefficients in enumerate((LAYER, HEAD_US)):
        expected = np.repeat((sums @ coefficients)[:, None], 2, axis=1)
        np.testing.assert_allclose(ds["time_us"].values[part], expected)
    assert sorted(ds["position"].values.flat) == list(range(TIMINGS))
    assert (ds["graphed"] == 1).all()
    assert (ds["clock_mhz"] == 1980).all()
    assert ds["layers"].values.tolist() == [10, 1]
    assert ds["held_out"].values.sum() == len(PLAN.held_out)


def test_every_variable_has_a_unit_and_a_meaning():
    ds = measure_steps(FakeSteps(), PLAN)
    assert set(ds.data_vars) == {variable.name for variable in TIMES}
    named = {variable.name for variable in (*BATCHES, HELD_OUT, LAYERS)}
    assert set(ds.coords) == named | {"part", "trial"}
    for array in ds.variables.values():
        assert array.attrs["units"]
        assert array.attrs["long_name"]


def test_the_dataset_says_on_what_and_with_what_it_was_measured(tmp_path):
    store = tmp_path / "steps.zarr"
    ds = measure_steps(FakeSteps(), PLAN, keep=lambda ds: save_dataset(store, ds))
    read = open_dataset(store, FORMAT, MAKER)
    assert read.equals(ds)
    assert read.attrs == ds.attrs
    assert ATTRIBUTES.items() <= read.attrs.items()
    assert read.attrs["time_ended"] >= read.attrs["time_started"]


@pytest.mark.parametrize(
    "failure",
    long_but([KeyboardInterrupt, InputError("the GPU fell off the bus")], KeyboardInterrupt),
)
def test_an_interrupted_measurement_is_kept_and_gone_on_with(failure, tmp_path):
    store = tmp_path / "steps.zarr"
    ran = TIMINGS // 2 + 5
    keep = {"keep": lambda ds: save_dataset(store, ds)}
    with pytest.raises((KeyboardInterrupt, InputError)):
        measure_steps(FakeSteps(fail_at=ran, failure=failure), PLAN, **keep)
    assert gc.isenabled()
    stored = open_dataset(store, FORMAT, MAKER)
    assert int((stored["position"] >= 0).sum()) == ran

    rest = FakeSteps(noise=0.0)
    told = []
    ds = measure_steps(
        rest, PLAN, stored=stored, **keep, progress=lambda *numbers: told.append(numbers)
    )
    assert len(rest.timed) == TIMINGS - ran
    assert told[0] == (ran, TIMINGS)
    assert told[-1] == (TIMINGS, TIMINGS)
    whole = measure_steps(FakeSteps(noise=0.0), PLAN)
    assert (ds["position"] == whole["position"]).all()


def test_a_complete_measurement_is_not_measured_again():
    ds = measure_steps(FakeSteps(), PLAN)
    device = FakeSteps()
    assert measure_steps(device, PLAN, stored=ds).equals(ds)
    assert device.timed == []


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("hardware", "Another GPU", "hardware is 'Fake GPU', not 'Another GPU'"),
        ("torch", "1.0", "torch is '9.9', not '1.0'"),
        ("dtype", "fp8", "dtype is 'bf16', not 'fp8'"),
    ],
)
def test_another_measurement_is_not_gone_on_with(key, value, told):
    stored = measure_steps(FakeSteps(), PLAN)
    device = FakeSteps()
    device.attributes[key] = value
    with pytest.raises(InputError, match=f"x.zarr: is another measurement: {told}; --overwrite"):
        measure_steps(device, PLAN, stored=stored, where="x.zarr")


def test_a_measurement_of_before_is_given_what_follows_from_its_model():
    stored = measure_steps(FakeSteps(), PLAN)
    device = FakeSteps()
    device.attributes |= {"experts_share": 0.03, "experts_bytes": 1e9}
    found = measure_steps(device, PLAN, stored=stored, where="x.zarr")
    assert device.timed == []
    assert (found.attrs["experts_share"], found.attrs["experts_bytes"]) == (0.03, 1e9)
    other = FakeSteps()
    other.attributes |= {"experts_share": 0.5, "experts_bytes": 1e9}
    with pytest.raises(InputError, match=r"x\.zarr: is another measurement: experts_share"):
        measure_steps(other, PLAN, stored=found, where="x.zarr")


def test_a_measurement_of_other_batches_is_not_gone_on_with():
    stored = measure_steps(FakeSteps(), PLAN)
    longer = plan(PLAN.ranges, trials=3, rungs=3, seed=0)
    told = r"x\.zarr: has 2 trials of each batch, not 3 \(--trials\); --overwrite replaces it"
    with pytest.raises(InputError, match=told):
        measure_steps(FakeSteps(), longer, stored=stored, where="x.zarr")
    finer = plan(PLAN.ranges, trials=2, rungs=4, seed=0)
    with pytest.raises(InputError, match="other batches"):
        measure_steps(FakeSteps(), finer, stored=stored, where="x.zarr")


def test_what_cannot_be_stored_is_known_before_the_first_timing():
    def keep(ds):
        raise InputError("nowhere")

    device = FakeSteps()
    with pytest.raises(InputError, match="nowhere"):
        measure_steps(device, PLAN, keep=keep)
    assert device.timed == []
