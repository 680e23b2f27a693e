"""Commands as vLLM 0.33.0's own parser reads them, and the limits of a step as it decides them."""

import gzip
import json
from pathlib import Path

import pytest

from kvsweep.errors import InputError
from kvsweep.sizing.gpus import find_gpu
from kvsweep.vllm_command.known import Known
from kvsweep.vllm_command.step_limits import step_limits
from kvsweep.vllm_command.values import Values
from kvsweep.vllm_command.words import read_command

FILE = Path(__file__).parents[1] / "goldens" / "vllm_commands.json.gz"
NUMBERS = ("gpu-memory-utilization", "watermark", "kv-offloading-size")


@pytest.fixture(scope="module")
def recorded():
    return json.loads(gzip.decompress(FILE.read_bytes()))


def value_of(values, name, like):
    """Return the value of an option, in the type of another value."""
    if isinstance(like, bool):
        return values.switch(name)
    if name in NUMBERS:
        return values.number(name)
    return values.text(name) if isinstance(like, str) else values.whole(name)


def test_commands_are_read_as_vllm_reads_them(recorded):
    refused = 0
    for case in recorded["commands"]:
        words = ["vllm", "serve", *case["words"]]
        if case["values"] is None:
            refused += 1
            with pytest.raises(InputError):
                read_command(words)
            continue
        command = read_command(words)
        values, told = Values(command), dict(case["values"])
        assert command.model == told.pop("model"), words
        assert values.table("speculative-config") == told.pop("speculative-config"), words
        found = {name: value_of(values, name, value) for name, value in told.items()}
        assert found == told, words
    assert refused == 38
    assert len(recorded["commands"]) == 400


def test_the_limits_of_a_step_are_those_of_vllm(recorded):
    for gpu, words, longest, tokens, seqs in recorded["limits"]:
        values = Values(read_command(["vllm", "serve", "m", *words]))
        # What EngineArgs decides its SchedulerConfig may refuse.
        whole = "--no-enable-chunked-prefill" in words
        if seqs > tokens or (whole and tokens < longest):
            with pytest.raises(InputError):
                step_limits(values, Known(gpu=gpu), find_gpu(gpu), longest)
            continue
        found = step_limits(values, Known(gpu=gpu), find_gpu(gpu), longest)
        assert (found.worker_tokens, found.worker_seqs) == (tokens, seqs), (gpu, words, longest)
    assert len(recorded["limits"]) == 300
