"""A limit on the requests under way: what it needs, what it makes idle, and what is drawn."""

import json

import numpy as np
import pytest

from kvsweep.config import Workload, load_sweep
from kvsweep.errors import InputError
from kvsweep.workload.generate import generate, requests_for

SWEEP = """
[workload]
requests = 20
concurrency = 4
{workload}
[engine]
{engine}
[latency]
beta = [1000, 10, 5]
{rest}
"""
CLIENTS = '[[workload.clients]]\nid = "a"\n[[workload.clients]]\nid = "b"\nrate_fraction = 2.0'


def load(tmp_path, workload="", engine="", rest=""):
    file = tmp_path / "s.toml"
    file.write_text(SWEEP.format(workload=workload, engine=engine, rest=rest))
    return load_sweep(file)


def refused(tmp_path, **parts):
    with pytest.raises(InputError) as caught:
        load(tmp_path, **parts)
    message = str(caught.value).removeprefix(f"{tmp_path}/")
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"workload": "sessions = { rounds = 2, think_time_s = 0 }"}, "not with sessions; those"),
        (
            {"rest": '[[workload.clients]]\nid = "a"\nsessions = { rounds = 2, think_time_s = 0 }'},
            "workload.concurrency: not with sessions",
        ),
        ({"engine": 'rules = "blis"'}, "concurrency: rules 'blis' has fixed arrivals only"),
        ({"workload": "rate = inf"}, "workload.rate: must be a finite number"),
        ({"workload": 'arrivals = "constant"'}, "arrivals: has no effect: needs a client that"),
        ({"workload": 'arrivals = "gamma"\ncv = 2.0'}, "with concurrency, a rate or several"),
    ],
)
def test_what_does_not_go_with_it_is_refused(tmp_path, parts, words):
    assert words in refused(tmp_path, **parts)


def test_gaps_matter_with_a_rate_or_with_several_clients(tmp_path):
    load(tmp_path)
    load(tmp_path, workload='rate = 50.0\narrivals = "gamma"\ncv = 2.0')
    load(tmp_path, workload='arrivals = "constant"', rest=CLIENTS)


@pytest.mark.parametrize("value", ["0", "-1", "1.5", '"4"', "true", "100_000_000"])
def test_it_is_a_whole_number_of_requests(tmp_path, value):
    message = refused(tmp_path, rest=f'[grid]\n"workload.concurrency" = [4, {value}]')
    assert "workload.concurrency" in message


def test_without_a_rate_all_are_ready_at_once_and_are_the_same_requests():
    limited = generate(Workload(requests=50, concurrency=4), 3)
    free = generate(Workload(requests=50, rate=7.0), 3)
    assert (limited.arrival_us == 0).all()
    for column in ("prompt_tokens", "output_tokens", "segment_ids"):
        assert (getattr(limited, column) == getattr(free, column)).all()


def test_with_a_rate_they_are_ready_as_without_the_limit():
    limited = generate(Workload(requests=50, rate=7.0, concurrency=4), 3)
    assert (limited.arrival_us == generate(Workload(requests=50, rate=7.0), 3).arrival_us).all()


def test_without_a_rate_clients_take_turns_as_they_would_with_any():
    clients = ({"id": "a"}, {"id": "b", "rate_fraction": 3.0})
    limited = generate(Workload(requests=400, concurrency=4, clients=clients), 0)
    free = generate(Workload(requests=400, rate=1e4, clients=clients), 0)
    assert (limited.client == free.client).all()
    assert (limited.prompt_tokens == free.prompt_tokens).all()
    assert np.mean(limited.client == 1) == pytest.approx(0.75, abs=0.1)


@pytest.mark.parametrize(
    ("more", "words"), [({"after": 0}, "wait for answers"), ({"patience_us": 5}, "impatient")]
)
def test_a_trace_whose_clients_wait_or_give_up_is_refused(tmp_path, more, words):
    rows = [{"id": i, "arrival_us": 0, "prompt": [[i, 5]], "output": [9 + i, 2]} for i in range(2)]
    trace = {"format": "kvsweep-trace/1", "requests": [rows[0], rows[1] | more]}
    (tmp_path / "t.json").write_text(json.dumps(trace))
    workload = Workload(trace="t.json", concurrency=1)
    with pytest.raises(InputError, match=rf"^workload\.concurrency: .*{words}"):
        requests_for(workload, 0, base_dir=tmp_path)
    (tmp_path / "t.json").write_text(json.dumps(trace | {"requests": rows}))
    assert len(requests_for(workload, 0, base_dir=tmp_path)) == 2
