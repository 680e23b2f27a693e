"""The tool that times a real vLLM, on an engine that stands for it."""

import json
import sys
from types import SimpleNamespace

import pytest
from record_vllm.cli import exit_code
from record_vllm.requests import read_requests
from time_vllm import cli
from time_vllm.asked import STATES, check_groups, drafting, prompt_ids, read_traces, settings
from time_vllm.running import COLUMNS, Copies, Notes, run, with_accepted

from kvsweep.errors import InputError

TRACE = {
    "format": "kvsweep-trace/1",
    "scenario": {
        "engine": {"max_num_seqs": 4, "max_num_batched_tokens": 64, "async_scheduling": True},
        "cache": {"gpu_blocks": 30},
        "latency": {"model": "llama-3.1-8b/h200/tp1"},
    },
    "requests": [
        {"id": i, "arrival_us": 1000 * i, "prompt": [[1, 3], [i, 2 + i]], "output": [9, 2]}
        for i in range(3)
    ],
}


class Engine:
    """Takes all requests that wait into each step; the GPU's outputs come a step later."""

    vocabulary, blocks, about, windows = 50, 40, {"gpu": "none"}, [None]

    def __init__(self, *arguments):
        self.arguments, self.prompts = arguments, []

    def begin(self, blocks):
        self.requests, self._flying, self.begun = [], [], blocks
        pool = SimpleNamespace(get_num_free_blocks=lambda: blocks - len(self.requests))
        self._scheduler = SimpleNamespace(
            schedule=self._schedule,
            update_from_output=self._update,
            running=self.requests,
            kv_cache_manager=SimpleNamespace(block_pool=pool),
        )
        return self._scheduler

    def request(self, name, prompt, outputs):
        self.prompts.append(prompt)
        return SimpleNamespace(
            request_id=name, prompt=prompt, computed=0, left=outputs, num_preemptions=len(prompt)
        )

    def add(self, request):
        self.requests.append(request)

    @property
    def busy(self):
        return bool(self.requests or self._flying)

    def step(self):
        self._flying.append(self._scheduler.schedule())
        return self._scheduler.update_from_output(self._flying.pop(0))

    def _schedule(self):
        new = [each for each in self.requests if not each.computed]
        old = [each for each in self.requests if each.computed]
        tokens = {each.request_id: 1 for each in old}
        tokens |= {each.request_id: len(each.prompt) for each in new}
        output = SimpleNamespace(
            total_num_scheduled_tokens=sum(tokens.values()),
            num_scheduled_tokens=tokens,
            scheduled_cached_reqs=SimpleNamespace(
                req_ids=[each.request_id for each in old],
                num_computed_tokens=[each.computed for each in old],
            ),
            scheduled_new_reqs=[
                SimpleNamespace(req_id=each.request_id, num_computed_tokens=0) for each in new
            ],
            preempted_req_ids={"a", "b"} if new else None,
            scheduled_spec_decode_tokens={},
        )
        for each in self.requests:
            each.computed += tokens[each.request_id]
            each.left -= 1
        return output

    def _update(self, output):
        made = [
            SimpleNamespace(
                request_id=each.request_id,
                new_token_ids=[0],
                finish_reason=None if each.left else "length",
            )
            for each in self.requests
        ]
        self.requests[:] = [each for each in self.requests if each.left]
        return made


@pytest.fixture
def traces(tmp_path):
    for name, blocks in (("a.json", 30), ("b.json", 41)):
        changed = {**TRACE, "scenario": {**TRACE["scenario"], "cache": {"gpu_blocks": blocks}}}
        (tmp_path / name).write_text(json.dumps(changed))
    (tmp_path / "config.json").write_text("{}")
    return tmp_path


def test_every_step_and_request_is_noted():
    engine = Engine()
    requests = read_requests(TRACE, "t")
    made = run(engine, requests, 30, "t")
    steps, times = made["steps"], made["requests"]
    assert engine.begun == 30
    assert list(steps) == list(COLUMNS)
    assert sum(steps["prefill"]) == 5 + 6 + 7
    assert sum(steps["decode"]) == 3
    assert sum(steps["decode_context"]) == 5 + 6 + 7
    assert sum(steps["before_tokens"]) == 10 + 15 + 21
    assert set(steps["preempted"]) <= {0, 2}
    assert steps["scheduled_us"] == sorted(steps["scheduled_us"])
    assert all(map(int.__le__, steps["scheduled_us"], steps["ended_us"]))
    held = [30 - free for free in steps["free_blocks"]]
    assert held == steps["running"]
    assert times.pop("preemptions") == [5, 6, 7]
    for request, *measured in zip(requests, *times.values(), strict=True):
        assert request.arrival_us <= measured[0] <= measured[1] <= measured[2]


def test_steps_without_tokens_are_left_out():
    nothing = SimpleNamespace(total_num_scheduled_tokens=0)
    pool = SimpleNamespace(get_num_free_blocks=int)
    scheduler = SimpleNamespace(
        schedule=lambda: nothing,
        update_from_output=None,
        running=[],
        kv_cache_manager=SimpleNamespace(block_pool=pool),
    )
    notes = Notes(scheduler, int)
    assert scheduler.schedule() is nothing
    assert notes.columns() == {name: [] for name in COLUMNS}


def test_prompts_share_what_the_trace_has_them_share():
    first, second = (prompt_ids(each, 50) for each in read_requests(TRACE, "t")[:2])
    assert first[:3] == second[:3]
    assert first[3:] != second[3:5]
    assert set(first + second) <= set(range(50))


def test_traces_are_written_with_what_was_measured(traces, monkeypatch, capsys):
    monkeypatch.setattr(cli, "Engine", Engine)
    out = traces / "out"
    arguments = [str(traces), str(traces / "a.json"), str(traces / "b.json"), "--out", str(out)]
    assert exit_code(cli.command, "time_vllm", arguments) == 1
    told = capsys.readouterr().err
    assert "b.json: gpu_blocks: 41; the GPU has room for 40" in told
    written = json.loads((out / "a.json").read_text())
    assert {key: written[key] for key in TRACE} == json.loads((traces / "a.json").read_text())
    assert written["measured"]["about"] == {"gpu": "none"}
    assert not (out / "b.json").exists()


def test_engines_have_the_settings_of_the_traces(traces):
    found = settings(read_traces((traces / "a.json",))[0].scenario)
    assert (found["max_num_seqs"], found["block_size"]) == (4, 16)
    assert found["async_scheduling"] is True


def changed(**sections):
    return {**TRACE, "scenario": {**TRACE["scenario"], **sections}}


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (changed(engine={"max_num_seqs": 5}), "asks for another engine than"),
        (changed(engine={"max_num_seqs": 4, "max_num_batched_tokens": 64}), "another engine than"),
        (changed(cluster={"prefill_instances": 1, "decode_instances": 1}), "not on one GPU"),
        ({**TRACE, "format": "else"}, "expected 'kvsweep-trace/1'"),
    ],
)
def test_other_engines_are_refused(traces, other, told):
    (traces / "c.json").write_text(json.dumps(other))
    with pytest.raises(InputError, match=told):
        read_traces((traces / "a.json", traces / "c.json"))


def test_two_traces_of_a_name_are_refused(traces):
    (traces / "more").mkdir()
    with pytest.raises(InputError, match=r"a\.json: two traces have this name"):
        read_traces((traces / "a.json", traces / "more" / "a.json"))


def test_a_model_has_a_config(traces, capsys):
    (traces / "config.json").unlink()
    arguments = [str(traces), str(traces / "a.json"), "--out", str(traces / "out")]
    assert exit_code(cli.command, "time_vllm", arguments) == 2
    assert "has no config.json" in capsys.readouterr().err


def test_groups_are_those_of_the_model_in_any_order(traces):
    groups = [{"kind": "full"}, {"kind": "sliding", "window": 64}]
    hybrid = changed(cache={"gpu_blocks": 30, "groups": groups})
    (traces / "c.json").write_text(json.dumps(hybrid))
    (asked,) = read_traces((traces / "c.json",))
    check_groups(asked, [64, None])
    for windows in ([None], [None, 128], [None, 64, 64]):
        with pytest.raises(InputError, match=r"c\.json: scenario\.cache\.groups: .* full"):
            check_groups(asked, windows)


def test_a_trace_with_the_groups_of_another_model_is_not_run(traces, monkeypatch, capsys):
    monkeypatch.setattr(cli, "Engine", Engine)
    monkeypatch.setattr(Engine, "windows", [64, None])
    arguments = [str(traces), str(traces / "a.json"), "--out", str(traces / "out")]
    assert exit_code(cli.command, "time_vllm", arguments) == 2
    assert "this model's are window 64, full" in capsys.readouterr().err


def test_without_vllm_one_line_says_what_is_missing(traces, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch", None)
    arguments = [str(traces), str(traces / "a.json"), "--out", str(traces / "out")]
    assert exit_code(cli.command, "time_vllm", arguments) == 2
    told = capsys.readouterr().err
    assert "torch" in told
    assert "start this by the Python of an environment that has vLLM" in told
    assert told.count("\n") == 1


DRAFTED = changed(
    engine={**TRACE["scenario"]["engine"], "speculative": {"tokens": 2, "method": "eagle"}}
)


def test_what_drafts_is_given_with_the_shares_that_are_accepted(traces):
    (traces / "d.json").write_text(json.dumps(DRAFTED))
    plain, drafted = (read_traces((traces / name,))[0].scenario for name in ("a.json", "d.json"))
    assert drafting(plain, None, ()) == {}
    found = drafting(drafted, traces, (0.8, 0.5))["speculative_config"]
    assert (found["method"], found["num_speculative_tokens"]) == ("eagle", 2)
    assert found["synthetic_acceptance_rates"] == [0.8, 0.5]
    for scenario, *given in (
        (plain, traces, ()),
        (plain, None, (0.5,)),
        (drafted, None, (0.8, 0.5)),
        (drafted, traces, (0.8,)),
    ):
        with pytest.raises(InputError, match=r"--drafts|--acceptance"):
            drafting(scenario, *given)


@pytest.mark.parametrize("text", ["0.5,x", "1.5", "-1,0"])
def test_shares_are_numbers_from_0_to_1(traces, capsys, text):
    arguments = [str(traces), str(traces / "a.json"), "--out", str(traces / "out")]
    assert exit_code(cli.command, "time_vllm", [*arguments, "--acceptance", text]) == 2
    assert "numbers from 0 to 1" in capsys.readouterr().err


def verification(drafts, sampled):
    """Return the output of a step that verifies drafts, by request, and what it samples."""
    output = SimpleNamespace(
        total_num_scheduled_tokens=sum(1 + n for n in drafts.values()),
        num_scheduled_tokens={name: 1 + n for name, n in drafts.items()},
        scheduled_spec_decode_tokens={name: [-1] * n for name, n in drafts.items() if n},
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=list(drafts), num_computed_tokens=[10 + i for i in range(len(drafts))]
        ),
        scheduled_new_reqs=[],
        preempted_req_ids=None,
    )
    found = SimpleNamespace(
        req_id_to_index={name: i for i, name in enumerate(sampled)},
        sampled_token_ids=[[0] * n for n in sampled.values()],
    )
    return output, found


def test_drafts_and_what_is_accepted_are_noted():
    steps = [
        verification({"a": 2, "b": 2}, {"b": 1, "a": 3}),
        verification({"a": 1, "b": 0}, {"a": 2, "b": 1}),
        verification({"b": 2}, {"b": 0}),
    ]
    coming = iter(output for output, _ in steps)
    scheduler = SimpleNamespace(
        schedule=lambda: next(coming),
        update_from_output=lambda output, found: None,
        running=["a", "b"],
        kv_cache_manager=SimpleNamespace(block_pool=SimpleNamespace(get_num_free_blocks=int)),
    )
    notes = Notes(scheduler, int)
    for _, found in steps:
        scheduler.update_from_output(scheduler.schedule(), found)
    columns = notes.columns()
    assert columns["drafts"] == [4, 1, 2]
    assert (columns["decode"], columns["prefill"]) == ([2, 2, 1], [0, 0, 0])
    assert columns["decode_context"] == [21, 21, 10]
    accepted = notes.accepted()
    assert accepted == {"a": [2, 1], "b": [0, 0]}
    document = {"requests": [{"id": 0}, {"id": 1}]}
    made = {"requests": {"accepted": [accepted["a"], []]}}
    requests = with_accepted(document, made)["requests"]
    assert [request["accepted"] for request in requests] == [[2, 1], [0]]
    assert with_accepted(document, {"requests": {}}) is document


class Tiered(Engine):
    """Loads four tokens for each request, at once, and stores as many."""

    def begin(self, blocks):
        scheduler = super().begin(blocks)
        connector = SimpleNamespace(update_state_after_alloc=lambda request, blocks, tokens: None)
        scheduler.connector = connector
        return scheduler

    def watch_copies(self, begun, ended):
        self._begun, self._ended = begun, ended

    def add(self, request):
        super().add(request)
        self._scheduler.connector.update_state_after_alloc(request, None, 4)
        for job, is_load in ((2 * len(self.prompts), True), (2 * len(self.prompts) + 1, False)):
            self._begun(job + 100 * len(self.requests), is_load)
            self._ended(job + 100 * len(self.requests), 64, 2e-6)


def test_copies_of_a_cpu_tier_are_noted():
    made = run(Tiered(), read_requests(TRACE, "t"), 30, "t")
    assert made["requests"]["loaded_tokens"] == [4, 4, 4]
    copies = made["copies"]
    assert tuple(copies) == Copies.COLUMNS
    assert sum(copies["is_load"]) == len(copies["is_load"]) - sum(copies["is_load"])
    assert set(copies["bytes"]) == {64}
    assert set(copies["took_us"]) == {2}
    assert copies["begun_us"] == sorted(copies["begun_us"])


def test_groups_of_states_are_told_from_others(traces):
    groups = [{"kind": "full"}, {"kind": "state"}]
    (traces / "s.json").write_text(json.dumps(changed(cache={"gpu_blocks": 30, "groups": groups})))
    (asked,) = read_traces((traces / "s.json",))
    check_groups(asked, [STATES, None])
    with pytest.raises(InputError, match="this model's are full, states, states"):
        check_groups(asked, [None, STATES, STATES])


def test_what_was_measured_is_replaced_only_when_told(traces, capsys, monkeypatch):
    monkeypatch.setattr(cli, "Engine", lambda *_: pytest.fail("started"))
    out = traces / "out"
    out.mkdir()
    (out / "a.json").write_text("measured")
    arguments = [str(traces), str(traces / "a.json"), "--out", str(out)]
    assert exit_code(cli.command, "time_vllm", arguments) == 2
    assert "a.json: is there already; --overwrite replaces it" in capsys.readouterr().err
    assert (out / "a.json").read_text() == "measured"
