"""Leases and heartbeats of the recorder, around a worker that stands for NixlConnector's."""

from types import SimpleNamespace

import pytest
from record_vllm import leases
from record_vllm.adapter import nixl_module
from record_vllm.leases import LONG_AGO, Clock, Keeper, next_heartbeat, take_heartbeats

from kvsweep.errors import InputError


class Worker:
    """Does with leases what vLLM's does, by the time of the module that it is in."""

    def start_load_kv(self, orders):
        self._reqs_to_process |= set(orders)
        self._reqs_to_send.update(orders)

    def _get_new_notifs(self):
        known = set()
        for note in self.nixl_wrapper.get_new_notifs()["decode"]:
            name, _, rest = note.decode().partition(":")
            if name == "HB":
                end = MODULES["base_worker"].time.perf_counter() + self._lease_extension
                if rest in self._reqs_to_send:
                    self._reqs_to_send[rest] = max(end, self._reqs_to_send[rest])
            elif name in self._reqs_to_process:
                self.consumer_notification_counts_by_req[name] += 1
                self._reqs_to_process.remove(name)
                self._reqs_to_send.pop(name, None)
                known.add(name)
        return known

    def _reap_expired_send_leases(self, done):
        now = MODULES["base_worker"].time.perf_counter()
        for name in [name for name, end in self._reqs_to_send.items() if end <= now]:
            self.xfer_stats.record_kv_expired_req()
            self._reqs_to_process.remove(name)
            del self._reqs_to_send[name]
            done.add(name)


MODULES = {
    "base_scheduler": SimpleNamespace(),
    "pull_scheduler": SimpleNamespace(),
    "base_worker": SimpleNamespace(),
    "pull_worker": SimpleNamespace(NixlPullConnectorWorker=Worker),
}


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(leases, "nixl_module", MODULES.__getitem__)
    return Clock()


def test_vllm_sees_the_clock_of_the_recording(clock):
    clock.now = 7
    assert [module.time.perf_counter() for module in MODULES.values()] == [LONG_AGO + 7] * 4


def test_pulls_heartbeats_and_ended_leases_are_told_apart(clock):
    keeper = Keeper(clock, 300)
    assert keeper.next_end is None
    keeper.begin(
        {name: LONG_AGO + end for name, end in zip("abcd", (90, 80, 80, 200), strict=True)}, 10
    )
    assert keeper.next_end == 80
    pulled, expired = keeper.end(["d", "x", "a"], ["c", "x"], 95)
    assert (list(pulled), list(expired)) == (["d", "a"], ["b"])
    assert keeper.next_end == 95 + 200
    assert [list(names) for names in keeper.end(["b"], [], 295)] == [[], ["c"]]
    assert keeper.next_end is None


def test_heartbeats_of_an_engine_are_those_of_all_that_it_waits_for():
    waits = {"p": SimpleNamespace(req_ids={"b", "a"}), "q": SimpleNamespace(req_ids={"c"})}
    assert take_heartbeats(SimpleNamespace(heartbeat_by_engine=waits)) == ["a", "b", "c"]
    side = SimpleNamespace(
        _heartbeat_by_engine={}, _last_heartbeat_time=0.0, _heartbeat_interval=50
    )
    scheduler = SimpleNamespace(connector=SimpleNamespace(connector_scheduler=side))
    assert next_heartbeat(scheduler) is None
    side._heartbeat_by_engine = waits
    assert next_heartbeat(scheduler) == 0, "the first one at once"
    side._last_heartbeat_time = LONG_AGO + 20
    assert next_heartbeat(scheduler) == 70


def test_a_release_without_the_connector_is_told_of():
    with pytest.raises(InputError, match="no base_worker of NixlConnector"):
        nixl_module("base_worker")
