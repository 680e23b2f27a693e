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
