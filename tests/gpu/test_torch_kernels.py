"""Kernels of attention: what each computes, and which is taken."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from gpu_models import BATCHES, DENSE, WINDOWS

from kvsweep.errors import InputError
from kvsweep.gpu.shard import shard_of

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'kvsweep[torch]'")

from kvsweep.gpu.torch_attention import KERNELS, find_kernel, gathered  # noqa: E402
from kvsweep.gpu.torch_layout import blocks_needed, lay_out  # noqa: E402

CPU = torch.device("cpu")

pytestmark = pytest.mark.usefixtures("one_thread")


def attended(q, keys, values, window):
    """Attention of each token by the formula, in double precision."""
    tokens, heads, channels = q.shape
    first, group = len(keys) - tokens, heads // keys.shape[1]
    rows = []
    for t in range(tokens):
        begin = 0 if window is None else max(0, first + t - window + 1)
        k, v = (part[begin : first + t + 1].double() for part in (keys, values))
        heads_of_token = []
        for head in range(heads):
            scores = k[:, head // group] @ q[t, head].double() / channels**0.5
            heads_of_token.append(scores.softmax(0) @ v[:, head // group])
        rows.append(torch.stack(heads_of_token))
    return torch.stack(rows)


@pytest.mark.parametrize("window", [None, 8])
@pytest.mark.parametrize("batch", BATCHES)
def test_attention_reads_the_blocks_of_each_sequence_and_no_others(batch, window):
    layout = lay_out(batch, CPU, scattered=True, seed=3)
    slots = 16 * blocks_needed([batch])
    keys, values = (torch.full((slots, 2, 16), torch.nan) for _ in range(2))
    q = torch.randn(batch.tokens, 4, 16)
    row, expected = 0, []
    sequences = ([layout.prompt] if batch.prefill else []) + list(
        layout.requests if batch.decode else []
    )
    for i, places in enumerate(sequences):
        new = batch.prefill if i == 0 and batch.prefill else 1
        keys[places], values[places] = torch.randn(2, len(places), 2, 16)
        expected.append(attended(q[row : row + new], keys[places], values[places], window))
        row += new
    assert len(torch.cat(sequences).unique()) == batch.held
    out = gathered(q, keys, values, layout, window)
    torch.testing.assert_close(out.double(), torch.cat(expected), rtol=1e-4, atol=1e-4)


def refusing(error):
    def kernel(*arguments):
        raise error

    return kernel


def blind(q, keys, values, layout, window):
    """Attend to all tokens where only those of a window are to be seen."""
    return gathered(q, keys, values, layout, None)


@pytest.mark.parametrize(
    ("kernel", "told"),
    [
        (refusing(RuntimeError("no kernel\nimage")), "mine: no kernel image"),
        (refusing(NotImplementedError("not for this type")), "mine: not for this type"),
        (refusing(TypeError("no argument block_table")), "mine: no argument block_table"),
        (refusing(ValueError("heads")), "mine: heads"),
        (refusing(ImportError("no varlen")), "mine: no varlen"),
        (refusing(AttributeError("no _vllm_fa2_C")), "mine: no _vllm_fa2_C"),
        (blind, "mine: other values than those of scaled_dot_product_attention"),
    ],
)
def test_the_next_kernel_is_taken_if_one_does_not_work_or_gives_other_values(kernel, told):
    shard = shard_of(WINDOWS, "m", 1)
    tried = {"mine": kernel, "gathered": gathered}
    assert find_kernel(shard, CPU, tried) == ("gathered", told)
    with pytest.raises(InputError, match=r"cpu: no attention kernel .* works there: mine: "):
        find_kernel(shard, CPU, {"mine": kernel})


def test_memory_that_runs_out_says_nothing_of_a_kernel():
    tried = {"mine": refusing(torch.OutOfMemoryError("full")), "gathered": gathered}
    with pytest.raises(torch.OutOfMemoryError, match="full"):
        find_kernel(shard_of(DENSE, "m", 1), CPU, tried)


@pytest.mark.parametrize("name", ["packed", "gathered"])
def test_a_kernel_that_works_is_taken_as_it_is(name):
    assert find_kernel(shard_of(WINDOWS, "m", 1), CPU, {name: gathered}) == (name, "")


def by_blocks(q, keys, values, *, block_table, cu_seqlens_q, seqused_k, window_size, **others):
    """What vLLM's function says that it computes."""
    assert others.pop("causal")
    starts, tables = cu_seqlens_q.tolist(), block_table.long()
    assert others.pop("max_seqlen_q") == max(np.diff(starts))
    assert others.pop("max_seqlen_k") == int(seqused_k.max())
    assert others.pop("fa_version") == 3
    assert not others
    rows = []
    for row, used in enumerate(seqused_k.tolist()):
        k, v = (part[tables[row]].flatten(0, 1)[:used] for part in (keys, values))
        window = None if window_size is None else window_size[0] + 1
        rows.append(attended(q[starts[row] : starts[row + 1]], k, v, window))
    return torch.cat(rows)


@pytest.mark.parametrize("window", [None, 8])
@pytest.mark.parametrize("batch", BATCHES)
def test_the_kernel_of_an_installed_vllm_reads_through_the_block_table(batch, window, monkeypatch):
    module = SimpleNamespace(flash_attn_varlen_func=by_blocks, is_fa_version_supported=bool)
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(vllm_flash_attn=module))
    monkeypatch.setitem(sys.modules, "vllm.vllm_flash_attn", module)
    layout = lay_out(batch, CPU, scattered=True, seed=3)
    keys, values = torch.randn(2, 16 * blocks_needed([batch]), 2, 16)
    q = torch.randn(batch.tokens, 4, 16)
    out = KERNELS["vllm"](q, keys, values, layout, window)
    expected = gathered(q, keys, values, layout, window)
    torch.testing.assert_close(out.float(), expected, rtol=1e-4, atol=1e-4)


def test_without_vllm_its_kernel_is_passed_by(monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    tried = {"vllm": KERNELS["vllm"], "gathered": gathered}
    found, refused = find_kernel(shard_of(DENSE, "m", 1), CPU, tried)
    assert found == "gathered"
    assert refused.startswith("vllm: ")


@pytest.mark.parametrize("newer", [True, False])
def test_heads_in_groups_are_told_to_a_pytorch_that_asks_for_it(newer, monkeypatch):
    told = {}

    def old(q, k, v, cu_seq_q, cu_seq_k, max_q, max_k, *, window_size=(-1, -1)):
        return q

    def new(q, k, v, cu_seq_q, cu_seq_k, max_q, max_k, *, window_size=(-1, -1), enable_gqa=False):
        told["enable_gqa"] = enable_gqa
        return q

    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", new if newer else old)
    layout = lay_out(BATCHES[3], CPU, scattered=False)
    keys, values = torch.randn(2, 16 * blocks_needed([BATCHES[3]]), 2, 16)
    KERNELS["packed"](torch.randn(BATCHES[3].tokens, 4, 16), keys, values, layout, None)
    assert told == ({"enable_gqa": True} if newer else {})
