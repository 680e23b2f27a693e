"""A machine without what a measurement needs gets one line; one with it, its layers."""

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from gpu_models import DENSE, EXPERTS, STATES, STATES_EXPERTS

from kvsweep.errors import InputError
from kvsweep.gpu.asked_ranges import usual_ranges
from kvsweep.gpu.batches import Ranges, plan
from kvsweep.gpu.machine import Machine, check_fp8, find_machine
from kvsweep.gpu.shard import shard_of
from kvsweep.gpu.torch_load import check_memory, load_device
from kvsweep.sizing.shapes import load_config
from kvsweep.sizing.sizes import GIB

MEASURED = Path(__file__).parents[2] / "docs" / "measurements" / "h200-vllm"
PLAN = plan(Ranges(64, 4, 128, 512), trials=1, rungs=3, seed=0)
H100 = Machine(
    SimpleNamespace(type="cuda"), "NVIDIA H100 80GB HBM3", "h100", 79 * GIB, 78 * GIB, 50 << 20, 0
)


def shard(model, tp=1):
    config, where, _ = load_config(model)
    return shard_of(config, where, tp)


def test_without_the_extra_the_command_that_installs_it_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr("importlib.metadata.version", _not_there)
    with pytest.raises(InputError, match=r"needs PyTorch: pip install 'kvsweep\[torch\]'"):
        find_machine("auto", None)


def _not_there(name):
    import importlib.metadata

    raise importlib.metadata.PackageNotFoundError(name)


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("cuda", "--device: cuda: PyTorch 9.9 sees no GPU"),
        ("gpu", "--device: 'gpu'; allowed: auto, cuda, cuda:N, cpu"),
    ],
)
def test_a_device_that_is_not_there_is_told(wanted, told, monkeypatch):
    cuda = SimpleNamespace(is_available=lambda: False)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda, __version__="9.9"))
    with pytest.raises(InputError, match=told):
        find_machine(wanted, None)


def test_a_gpu_that_is_there_is_told_by_name_memory_and_cache(monkeypatch):
    about = SimpleNamespace(name="NVIDIA H200", L2_cache_size=60 << 20)
    cuda = SimpleNamespace(
        is_available=lambda: True,
        device_count=lambda: 2,
        set_device=lambda device: None,
        get_device_properties=lambda device: about,
        mem_get_info=lambda device: (130 * GIB, 139 * GIB),
    )
    fake = SimpleNamespace(cuda=cuda, device=lambda *where: where, __version__="9.9")
    monkeypatch.setitem(sys.modules, "torch", fake)
    found = find_machine("cuda:1", None)
    assert found == Machine(("cuda", 1), "NVIDIA H200", "h200", 139 * GIB, 130 * GIB, 60 << 20, 0)
    for wanted, threads, told in (
        ("cuda:2", None, "there are 2 GPUs, from 0"),
        ("auto", 4, "--threads: has no effect on a GPU"),
    ):
        with pytest.raises(InputError, match=told):
            find_machine(wanted, threads)


def test_a_slice_of_a_gpu_is_not_taken_for_the_gpu(monkeypatch):
    cuda = SimpleNamespace(
        is_available=lambda: True,
        device_count=lambda: 1,
        set_device=lambda device: None,
        get_device_properties=lambda device: SimpleNamespace(name="NVIDIA H100 MIG 1g.10gb"),
    )
    fake = SimpleNamespace(cuda=cuda, device=lambda *where: where, __version__="9.9")
    monkeypatch.setitem(sys.modules, "torch", fake)
    with pytest.raises(InputError, match=r"H100 MIG 1g\.10gb: is a slice of a GPU \(MIG\)"):
        find_machine("auto", None)


def test_eight_bits_without_a_gpu_that_has_them_are_told(monkeypatch):
    cuda = SimpleNamespace(get_device_capability=lambda device: (8, 0))
    fake = SimpleNamespace(cuda=cuda, version=SimpleNamespace(hip=None))
    monkeypatch.setitem(sys.modules, "torch", fake)
    processor = replace(H100, device=SimpleNamespace(type="cpu"))
    with pytest.raises(InputError, match="--dtype: fp8 needs a GPU"):
        check_fp8(processor)
    with pytest.raises(InputError, match=r"capability 8.9 or later; NVIDIA H100 80GB HBM3 has 8.0"):
        check_fp8(H100)
    cuda.get_device_capability = lambda device: (9, 0)
    check_fp8(H100)


def test_too_little_memory_is_told_before_anything_is_made():
    model = shard("llama-3.1-8b")
    copies = dict.fromkeys(model.kinds, 1)
    check_memory(H100, model, PLAN, False, copies)
    with pytest.raises(InputError, match=r"1\.4 GiB are needed .*, 1\.0 of 79\.0 GiB are free"):
        check_memory(replace(H100, free=GIB), model, PLAN, False, copies)


def test_ranges_are_those_of_a_server_on_this_gpu():
    found = usual_ranges(shard("llama-3.1-8b"), H100, 131072, fp8=False, quick=False, given={})
    assert (found.max_num_batched_tokens, found.max_num_seqs) == (8192, 1024)
    assert found.max_model_len == 32768
    # 0.92 of 79 GiB less 15 of weights, at 128 KiB a token.
    assert found.pool_tokens == pytest.approx((0.92 * 79 - 14.96) * 8192, rel=0.01)
    given = {"max_num_seqs": 100, "pool_tokens": 50_000}
    quick = usual_ranges(shard("llama-3.1-8b"), H100, 4096, fp8=False, quick=True, given=given)
    assert quick == Ranges(2048, 100, 4096, 50_000)


def test_a_model_that_leaves_no_room_for_a_cache_is_told():
    with pytest.raises(InputError, match=r"at --tp 1 has 131\.\d GiB of weights.* more --tp"):
        usual_ranges(shard("llama-3.1-70b"), H100, 131072, fp8=False, quick=False, given={})
    usual_ranges(shard("llama-3.1-70b", 4), H100, 131072, fp8=False, quick=False, given={})
    usual_ranges(shard("llama-3.1-70b"), H100, 8192, fp8=False, quick=False,
                 given={"pool_tokens": 9000})  # fmt: skip


def test_a_longest_request_that_the_cache_does_not_hold_is_refused():
    """Contexts of a shorter one were measured, without a word."""
    model, processor = shard("llama-3.1-8b"), replace(H100, device=SimpleNamespace(type="cpu"))
    told = r"--max-model-len: 40,000; the KV cache has 16,384 tokens: .* or --pool-tokens 40000"

    def ranges(**given):
        return usual_ranges(model, processor, 131072, fp8=False, quick=False, given=given)

    with pytest.raises(InputError, match=told):
        ranges(max_model_len=40_000)
    assert ranges(max_model_len=40_000, pool_tokens=40_000).max_model_len == 40_000
    assert ranges(max_model_len=16_384).max_model_len == 16_384


@pytest.mark.parametrize("config", [DENSE, EXPERTS, STATES, STATES_EXPERTS])
def test_a_processor_times_every_part(config):
    torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'kvsweep[torch]'")
    before = torch.get_num_threads()
    try:
        machine = replace(find_machine("cpu", 1), cache=0)
        device = load_device(machine, shard_of(config, "m", 1), PLAN, fp8=False)
        for part in range(len(device.parts)):
            timing = device.time(part, PLAN.batches[0])
            assert timing.seconds > 0
            assert timing.calls >= 1
            assert not timing.graphed
    finally:
        torch.set_num_threads(before)
    assert device.attributes["attention_kernel"] == "gathered"
    keeps = "mamba_chunk_size" in config or "chunk_size" in config
    assert device.attributes.get("state_kernel") == ("chunks" if keeps else None)
    assert device.attributes["clock"] == "processor time"
    assert device.attributes["torch"] == torch.__version__


NEMOTRON = str(MEASURED / "nemotron-h-8b-config.json")


def test_states_take_their_part_of_the_memory():
    """Of each request 24 states of 4 MiB, beside 15.1 GiB of weights."""
    model = shard(NEMOTRON)
    given = {"max_num_seqs": 1024}
    told = (
        r"at --tp 1 has 15\.1 GiB of weights and 97\.4 of states of 1,024 requests, which leave no"
    )
    with pytest.raises(InputError, match=told):
        usual_ranges(model, H100, 8192, fp8=False, quick=False, given=given)
    usual = usual_ranges(model, H100, 8192, fp8=False, quick=False, given={})
    half = (0.92 * 79 - 15.09) / 2 * GIB
    assert usual.max_num_seqs == pytest.approx(half / 24 / 4_255_744, abs=1)
    given = {"max_num_seqs": 256}
    found = usual_ranges(model, H100, 8192, fp8=False, quick=False, given=given)
    # A token takes 16 KiB: four layers of 4 KiB.
    room = 0.92 * 79 - 15.09 - 256 * 24 * 4_255_744 / GIB
    assert found.pool_tokens == pytest.approx(room * 2**16, rel=0.01)
    laid_out = plan(Ranges(8192, 256, 8192, 2_000_000), trials=1, rungs=6, seed=0)
    copies = dict.fromkeys(model.kinds, 1)
    check_memory(H100, model, laid_out, False, copies)
    # A pool of 2,000,000 tokens in one layer takes 7.6 GiB, 256 states 1.0, weights 1.6.
    with pytest.raises(InputError, match=r"12\.1 GiB are needed"):
        check_memory(replace(H100, free=GIB), model, laid_out, False, copies)


def test_the_longest_request_is_no_longer_than_a_pool_that_is_given():
    """A remedy where memory does not suffice is less `--pool-tokens`, which was refused."""
    dense, processor = shard("llama-3.1-8b"), replace(H100, device=SimpleNamespace(type="cpu"))

    def ranges(machine, **given):
        return usual_ranges(dense, machine, 131072, fp8=False, quick=False, given=given)

    assert ranges(H100, pool_tokens=20_000) == Ranges(8192, 1024, 20_000, 20_000)
    assert ranges(processor, pool_tokens=1000).max_model_len == 1000
    with pytest.raises(InputError, match="--pool-tokens: 100; allowed: 128 to"):
        plan(ranges(processor, pool_tokens=100), trials=1, rungs=4, seed=0)
    with pytest.raises(InputError, match="--pool-tokens: 1,000; allowed: 2,000 to"):
        plan(ranges(processor, pool_tokens=1000, max_model_len=2000), trials=1, rungs=4, seed=0)
