"""Layers of Mamba-2: what the reference computes, what kernels are told, and which is taken."""

import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from gpu_models import STATES, STATES_EXPERTS
from hypothesis import given
from hypothesis import strategies as st

from kvsweep.errors import InputError
from kvsweep.gpu.shard import shard_of
from kvsweep.gpu.state_layers import Mamba, chunks_of

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'kvsweep[torch]'")

from kvsweep.gpu.torch_chunks import in_chunks  # noqa: E402
from kvsweep.gpu.torch_kit import build_kit  # noqa: E402
from kvsweep.gpu.torch_scan import SCANS, find_scan  # noqa: E402
from kvsweep.gpu.torch_state_layout import (  # noqa: E402
    States,
    coefficients,
    fresh_states,
    lay_out_states,
)
from kvsweep.gpu.torch_states import StateMixer  # noqa: E402

CPU = torch.device("cpu")
SMALL = Mamba(heads=8, head_dim=4, groups=2, size=8, taps=4, chunk=8, cell_bytes=4, bias=True)
MIXED = [(13, 0), (7, 5)]
BATCHES = [([(20, 0)], 0), ([(5, 3)], 0), ([(1, 8)], 2), ([], 3), (MIXED, 3), ([(2, 0)], 1)]

pytestmark = pytest.mark.usefixtures("one_thread")


def filtered(x, taps, bias, kept):
    """Convolve the inputs of one sequence, token by token; `kept` are the last ones before."""
    series, made = kept.double(), []
    for token in x.double():
        series = torch.cat((series, token[:, None]), dim=1)[:, -taps.shape[1] :]
        total = (series * taps.double()).sum(1) + (0 if bias is None else bias.double())
        made.append(total * total.sigmoid())
    return torch.stack(made), series[:, 1:]


def recurred(x, steps, b, c, decay, skip, state):
    """Compute one sequence token by token and head by head: of shape (tokens, heads, ...)."""
    state, outputs = state.double().clone(), []
    for token in range(len(x)):
        row = []
        for head in range(x.shape[1]):
            group = head // (x.shape[1] // b.shape[1])
            d, inputs = steps[token, head].double(), x[token, head].double()
            state[head] *= torch.exp(d * decay[head].double())
            state[head] += d * torch.outer(inputs, b[token, group].double())
            row.append(state[head] @ c[token, group].double() + skip[head].double() * inputs)
        outputs.append(torch.stack(row))
    return torch.stack(outputs), state


def softplus(dt, bias):
    return torch.log1p(torch.exp(dt.double() + bias.double()))


def token_by_token(mamba, x, dt, weights, states, layout):
    """What a scan is to compute, of each sequence by itself."""
    prompts = zip(layout.places, layout.prompts, strict=True)
    sequences = [*prompts, *((place, (1, 1)) for place in layout.requests)]
    rows, outputs = 0, []
    for place, (new, before) in sequences:
        part, (inputs, cells) = slice(rows, rows + new), (kept[place] for kept in states)
        started = (inputs, cells) if before else (inputs * 0, cells * 0)
        made, last = filtered(x[part], weights.taps, weights.bias, started[0])
        wide = mamba.groups * mamba.size
        inner, b, c = made.split([mamba.inner, wide, wide], dim=1)
        y, state = recurred(
            inner.view(new, mamba.heads, -1),
            softplus(dt[part], weights.step),
            b.view(new, mamba.groups, -1),
            c.view(new, mamba.groups, -1),
            weights.decay,
            weights.skip,
            started[1],
        )
        inputs.copy_(last)
        cells.copy_(state)
        outputs.append(y.flatten(1))
        rows += new
    return torch.cat(outputs)


def both(scan, mamba, prompts, decode):
    """Return outputs and states of a scan and of `token_by_token`, on the same random values."""
    layout = lay_out_states(prompts, decode, mamba.chunk, CPU, seed=3)
    weights = coefficients(mamba, CPU)
    states = fresh_states(mamba, len(prompts) + decode, CPU)
    tokens = layout.chunk_tokens + decode
    made = torch.randn(tokens, mamba.channels + mamba.heads, dtype=torch.bfloat16)
    found = []
    for each in (scan, token_by_token):
        x, dt = made.clone().split([mamba.channels, mamba.heads], dim=1)
        own = States(*(part.clone() for part in states))
        found.append((each(mamba, x, dt, weights, own, layout), *own))
    for state in range(1 + len(prompts) + decode):  # only those of the batch are written
        same = torch.equal(found[0][2][state], states.cells[state])
        assert same == (state not in layout.places + layout.requests)
    return found


@pytest.mark.parametrize("mamba", [SMALL, replace(SMALL, groups=1, bias=False, cell_bytes=2)])
@pytest.mark.parametrize(("prompts", "decode"), BATCHES)
def test_chunks_give_what_the_recurrence_gives_token_by_token(prompts, decode, mamba):
    for mine, expected in zip(*both(in_chunks, mamba, prompts, decode), strict=True):
        torch.testing.assert_close(mine.double(), expected.double(), rtol=0.02, atol=0.02)


def test_a_chunk_of_a_prompt_gives_what_the_whole_prompt_gives():
    mixer = StateMixer(32, SMALL, build_kit(CPU, fp8=False), 1, "chunks")
    x = torch.randn(20, 32, dtype=torch.bfloat16)
    whole = mixer(x, lay_out_states([(20, 0)], 0, 8, CPU), None)
    mixer(x[:13], lay_out_states([(13, 0)], 0, 8, CPU), None)
    rest = mixer(x[13:19], lay_out_states([(6, 13)], 0, 8, CPU), None)
    torch.testing.assert_close(rest, whole[13:19], rtol=0.05, atol=0.05)
    last = mixer(x[19:], lay_out_states([], 1, 8, CPU), None)
    torch.testing.assert_close(last, whole[19:], rtol=0.05, atol=0.05)


@given(
    prompts=st.lists(st.tuples(st.integers(1, 40), st.integers(0, 40)), max_size=4),
    size=st.sampled_from([1, 4, 16]),
)
def test_chunks_end_at_every_so_many_tokens_of_a_prompt_and_at_its_end(prompts, size):
    found = chunks_of(prompts, size)
    expected, owners = [0], []
    for row, (new, before) in enumerate(prompts):
        begin = expected[-1]
        ends = [i + 1 for i in range(new) if (before + i + 1) % size == 0 or i + 1 == new]
        expected += [begin + end for end in ends]
        owners += [row] * len(ends)
        assert found.last[row] == len(owners) - 1
    assert (found.starts, found.prompts) == (expected, owners)


@given(
    prompts=st.lists(st.tuples(st.integers(1, 40), st.integers(0, 40)), max_size=4),
    decode=st.integers(0, 5),
)
def test_each_sequence_has_a_state_of_its_own_and_none_the_first(prompts, decode):
    layout = lay_out_states(prompts, decode, 8, CPU)
    states = [*layout.places, *layout.requests]
    assert sorted(states) == list(range(1, 1 + len(prompts) + decode))
    assert layout.prompt_states.tolist() + layout.request_states.tolist() == states
    assert layout.begun.tolist() == [before > 0 for _, before in prompts]
    programs = layout.programs.nums_dict[8]
    pairs = [(row, i) for row, (new, _) in enumerate(prompts) for i in range(-(-new // 8))]
    assert programs["tot"] == len(pairs)
    told = zip(layout.programs.batch_ptr, layout.programs.token_chunk_offset_ptr, strict=True)
    told = [(int(row), int(place)) for row, place in told]
    assert told[: len(pairs)] == pairs
    assert set(told[len(pairs) :]) == {(-1, -1)}  # vLLM's PAD_SLOT_ID


def convolve(x, weight, bias, conv_states, query_start_loc, **told):
    """What vLLM's ``causal_conv1d_fn`` says that it computes: from and to (channels, tokens)."""
    assert (told["activation"], x.stride(0)) == ("silu", 1)
    rows, starts = [], query_start_loc.tolist()
    for row, state in enumerate(told["cache_indices"].tolist()):
        kept = conv_states[state] * told["has_initial_state"][row]
        part = x[:, starts[row] : starts[row + 1]].t()
        made, conv_states[state] = filtered(part, weight, bias, kept)
        rows.append(made)
    return torch.cat(rows).t().to(x.dtype)


def convolve_one(x, conv_state, weight, bias, activation, conv_state_indices):
    """What its ``causal_conv1d_update`` says: each row a request; `x` is written over."""
    assert activation == "silu"
    for row, state in enumerate(conv_state_indices.tolist()):
        x[row : row + 1], conv_state[state] = filtered(
            x[row : row + 1], weight, bias, conv_state[state]
        )
    return x


def scan_chunks(x, dt, decay, b, c, *, out, state_dtype, initial_states, **told):
    """What its ``mamba_chunk_scan_combined_varlen`` says, by the chunks that it is told."""
    assert told["dt_softplus"]
    assert told["z"] is None
    starts, owners = told["cu_chunk_seqlens"].tolist(), told["seq_idx"].tolist()
    assert {starts[at + 1] for at in told["last_chunk_indices"].tolist()} == set(
        told["cu_seqlens"].tolist()[1:]
    )
    states = torch.zeros(len(told["cu_seqlens"]) - 1, *x.shape[1:], b.shape[-1])
    if initial_states is not None:
        states = initial_states.clone()
    for piece, row in enumerate(owners):
        part = slice(starts[piece], starts[piece + 1])
        assert 0 < part.stop - part.start <= told["chunk_size"]
        steps = softplus(dt[part], told["dt_bias"])
        made = recurred(x[part], steps, b[part], c[part], decay, told["D"], states[row])
        out[part], states[row] = made
    return states.to(state_dtype)


def update_states(state, x, dt, decay, b, c, skip, step, *, out, **told):
    """What its ``selective_state_update`` says, of one token of each request."""
    assert told.pop("dt_softplus")
    read, written = (told.pop(f"{name}state_batch_indices").tolist() for name in ("", "dst_"))
    assert read == written
    assert not told
    assert (decay.stride()[1:], dt.stride(-1), step.stride(-1)) == ((0, 0), 0, 0)
    for row, place in enumerate(read):
        steps = softplus(dt[row : row + 1, :, 0], step[:, 0])
        one = slice(row, row + 1)
        made = recurred(x[one], steps, b[one], c[one], decay[:, 0, 0], skip[:, 0], state[place])
        out[one], state[place] = made


OPS = "vllm.model_executor.layers.mamba.ops"


@pytest.fixture
def installed(monkeypatch):
    """A vLLM whose functions compute what they say that they do."""
    modules = {
        "causal_conv1d": {"causal_conv1d_fn": convolve, "causal_conv1d_update": convolve_one},
        "ssd_combined": {"mamba_chunk_scan_combined_varlen": scan_chunks},
        "mamba_ssm": {"selective_state_update": update_states},
    }
    for name, functions in modules.items():
        monkeypatch.setitem(sys.modules, f"{OPS}.{name}", SimpleNamespace(**functions))
    packages = OPS.split(".")
    for count in range(1, len(packages) + 1):
        monkeypatch.setitem(sys.modules, ".".join(packages[:count]), SimpleNamespace(__path__=[]))


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(("prompts", "decode"), BATCHES)
def test_the_kernels_of_an_installed_vllm_are_told_of_each_sequence(prompts, decode):
    for mine, expected in zip(*both(SCANS["vllm"], SMALL, prompts, decode), strict=True):
        torch.testing.assert_close(mine.double(), expected.double(), rtol=0.03, atol=0.03)


@pytest.mark.usefixtures("installed")
def test_the_kernels_of_an_installed_vllm_are_taken_if_they_give_the_same():
    for model in (STATES, STATES_EXPERTS):
        mamba = shard_of(model, "m", 1).mamba
        assert find_scan(mamba, CPU, {"vllm": SCANS["vllm"]}) == ("vllm", "")


def without(**change):
    """Return a scan that leaves something out."""

    def scan(mamba, x, dt, weights, states, layout):
        layout = replace(layout, **{k: v(layout) for k, v in change.items() if hasattr(layout, k)})
        changed = {k: v(weights) for k, v in change.items() if hasattr(weights, k)}
        return in_chunks(mamba, x, dt, weights._replace(**changed), states, layout)

    return scan


def failing(error):
    def scan(*arguments):
        raise error

    return scan


OTHER = "other values than those of PyTorch"


@pytest.mark.parametrize(
    ("scan", "told"),
    [
        (without(prompts=lambda layout: [(new, 0) for new, _ in layout.prompts]), OTHER),
        (without(requests=lambda layout: [], request_states=lambda layout: None), "tensor"),
        (without(places=lambda layout: layout.places[::-1]), OTHER),
        (without(request_states=lambda layout: layout.request_states.flip(0)), OTHER),
        (without(skip=lambda weights: weights.skip * 0), OTHER),
        (without(step=lambda weights: weights.step * 0), OTHER),
        (without(bias=lambda weights: None), OTHER),
        (failing(ImportError("No module named 'vllm'")), "No module named 'vllm'"),
        (failing(KeyError(8)), "8"),
        (failing(RuntimeError("no kernel\nimage")), "no kernel image"),
    ],
)
def test_a_kernel_that_does_not_work_or_gives_other_values_is_not_taken(scan, told):
    mamba = shard_of(STATES, "m", 1).mamba
    assert find_scan(mamba, CPU, {"mine": scan, "chunks": in_chunks})[0] == "chunks"
    with pytest.raises(InputError, match=f"cpu: layers that keep a state .*: mine: .*{told}") as e:
        find_scan(mamba, CPU, {"mine": scan})
    assert "\n" not in str(e.value)


def test_memory_that_runs_out_says_nothing_of_a_scan():
    mamba = shard_of(STATES, "m", 1).mamba
    with pytest.raises(torch.OutOfMemoryError, match="full"):
        find_scan(mamba, CPU, {"mine": failing(torch.OutOfMemoryError("full"))})


def test_a_gpu_without_vllm_is_told_in_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(InputError, match=r"vLLM's kernels, .* into an environment of vLLM$"):
        find_scan(shard_of(STATES, "m", 1).mamba, CPU, {"vllm": SCANS["vllm"]})
    assert find_scan(shard_of(STATES, "m", 1).mamba, CPU) == ("chunks", "")
