"""When transfers start and end on the recorder's device, by hand."""

from types import SimpleNamespace

from record_vllm.device import LOAD, STORE, Device
from record_vllm.scenario import read_scenario
from record_vllm.steps import Ordered


def device():
    """Blocks of 4 tokens, 10 us for each transfer and 2 us for a token."""
    cache = {"block_size": 4, "gpu_blocks": 9, "offload": "vllm", "cpu_blocks": 9}
    cache |= {"transfer_base_latency_us": 10, "transfer_bandwidth": 0.5}
    latency = {"alpha": [0, 0, 0], "beta": [1, 1, 1]}
    return Device(read_scenario({"cache": cache, "latency": latency}, "x"))


def orders(loads=(), stores=(), flush=()):
    def jobs(side, entries):
        blocks = SimpleNamespace(block_ids=[0, 1])
        return {job: SimpleNamespace(req_id=str(job), **{side: blocks}) for job in entries}

    return SimpleNamespace(
        load_jobs=jobs("dst_spec", loads),
        store_jobs=jobs("src_spec", stores),
        jobs_to_flush=set(flush),
    )


def test_a_store_starts_with_the_step_after_the_one_that_ordered_it():
    one = device()
    assert one.execute(0, orders(stores=[1]), 100).completed == []
    assert one.has_stores_to_submit
    second = one.execute(0, orders(), 50)
    assert (second.start, second.end) == (100, 150)  # the device was busy
    (transfer,) = second.completed
    assert (transfer.kind, transfer.submitted, transfer.end) == (STORE, 100, 126)


def test_a_load_starts_at_the_end_of_its_step_and_is_seen_by_a_later_one():
    one = device()
    first = one.execute(0, orders(loads=[1]), 100)
    assert first.completed == []
    assert one.next_end(100) == 126
    (transfer,) = one.execute(100, orders(), 26).completed
    assert (transfer.kind, transfer.start, transfer.end) == (LOAD, 100, 126)
    assert one.next_end(0) is None


def test_transfers_of_one_direction_queue_and_those_of_both_do_not():
    one = device()
    one.execute(0, orders(stores=[1, 2]), 100)
    one.execute(100, orders(loads=[3]), 0)
    starts = {transfer.job: transfer.start for transfer in one.transfers}
    assert starts == {1: 100, 2: 126, 3: 100}


def test_a_step_waits_for_stores_that_are_flushed():
    one = device()
    one.execute(0, orders(stores=[1]), 100)
    flushed = one.execute(100, orders(stores=[2], flush=[1, 2]), 5)
    assert (flushed.stall, flushed.end) == (52, 157)
    assert [transfer.job for transfer in flushed.completed] == [1, 2]


def test_ids_that_finished_keep_their_order():
    ids = Ordered()
    for name in ("b", "a", "b", "c"):
        ids.add(name)
    assert list(ids) == ["b", "a", "c"]
    assert "a" in ids
    assert len(ids) == 3


def pipeline(stages, **engine):
    engine |= {"pipeline_parallel_size": stages}
    latency = {"alpha": [0, 0, 0], "beta": [1, 1, 1]}
    values = {"engine": engine, "cache": {"gpu_blocks": 9}, "latency": latency}
    return Device(read_scenario(values, "x"))


def passed(one, *steps, **more):
    """Return start and end of steps, each (when it was scheduled, how long it takes)."""
    done = [one.execute(at, None, duration, **more) for at, duration in steps]
    return [(step.start, step.end) for step in done]


def test_a_step_passes_the_stages_and_the_next_follows_it():
    # 100 us are 33, 33 and 34 us on three stages.
    assert passed(pipeline(3), (5, 100), (5, 100), (500, 7)) == [(5, 105), (38, 139), (500, 507)]


def test_a_short_step_waits_for_a_long_one_at_each_stage():
    # The long one leaves the stages at 50 and 100: the short one has the first at 50, waits.
    assert passed(pipeline(2), (0, 100), (0, 10), (0, 10)) == [(0, 100), (50, 105), (55, 110)]
    # After a short one nothing is in the way.
    assert passed(pipeline(2), (0, 10), (0, 100)) == [(0, 10), (5, 105)]


def test_a_step_without_tokens_takes_no_stage():
    one = pipeline(2)
    steps = passed(one, (0, 100), (0, None), (0, 100), (70, None), (400, None), (400, 20))
    assert steps == [(0, 100), (100, 100), (50, 150), (150, 150), (400, 400), (400, 420)]


def test_a_step_waits_for_what_was_sampled_as_many_steps_before_as_there_are_stages():
    tokens = [(0, 100), (0, 100), (0, 100)]
    waits = [(0, 100), (50, 150), (100, 200)]
    assert passed(pipeline(2, async_scheduling=True), *tokens, samples=True) == waits
    assert passed(pipeline(2, async_scheduling=True), *tokens) == waits  # nothing is in between
    behind = [(0, 100), (0, None), (0, 10), (0, 10)]
    waits = [(0, 100), (100, 100), (100, 110), (105, 115)]
    assert passed(pipeline(2, async_scheduling=True), *behind, samples=True) == waits
    free = [(0, 100), (100, 100), (50, 105), (55, 110)]
    assert passed(pipeline(2, async_scheduling=True), *behind) == free  # chunks sample nothing
    assert passed(pipeline(2), *behind, samples=True) == free
