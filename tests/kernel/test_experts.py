"""Steps read the experts that their tokens are sent to: one request, and pools of instances."""

import pytest

from kvsweep.trace_replay import run_replay

LATENCY = {"beta": [100, 1, 1], "memory": [50, 1, 1], "experts": [4000, 0.03125]}
REQUESTS = [{"id": i, "arrival_us": 0, "prompt": [[i, 40]], "output": [99, 3]} for i in range(2)]


def step_us(tokens):
    return int(100 + 50 + tokens + 4000 * (1 - (1 - 0.03125) ** tokens))


@pytest.mark.parametrize(
    "cluster", [{}, {"pools": [{"instances": 1, "gpu_blocks": 50, "latency": LATENCY}]}]
)
@pytest.mark.parametrize("requests", [1, 2])
def test_steps_take_what_their_tokens_have_read(cluster, requests):
    trace = {
        "format": "kvsweep-trace/1",
        "scenario": {
            "cluster": cluster,
            "cache": {} if cluster else {"gpu_blocks": 50},
            "latency": {"beta": [7]} if cluster else LATENCY,
        },
        "requests": REQUESTS[:requests],
    }
    steps = run_replay(trace).steps["duration_us"].tolist()
    assert steps == [step_us(40 * requests), step_us(requests), step_us(requests)]
