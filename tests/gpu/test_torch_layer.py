"""Layers in PyTorch: on the processor for what they compute, on tensors without data for CUDA."""

from dataclasses import fields, replace

import pytest
from gpu_models import BATCHES, DENSE, LATENT, MODELS, STATES, WINDOWS

from kvsweep.gpu.batches import Batch, Ranges, plan
from kvsweep.gpu.shard import shard_of

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'kvsweep[torch]'")

from kvsweep.gpu import torch_layer  # noqa: E402
from kvsweep.gpu.torch_attention import Attention  # noqa: E402
from kvsweep.gpu.torch_experts import ExpertMlp  # noqa: E402
from kvsweep.gpu.torch_kit import (  # noqa: E402
    EPSILON,
    angles,
    build_kit,
    gated_norm,
    rotated,
    silu_gate,
    turned,
)
from kvsweep.gpu.torch_latent import LatentAttention  # noqa: E402
from kvsweep.gpu.torch_layer import HeadStack, Layer, LayerStack, draw_inputs  # noqa: E402
from kvsweep.gpu.torch_layout import blocks_needed, lay_out  # noqa: E402
from kvsweep.gpu.torch_linear import Linear, to_fp8  # noqa: E402
from kvsweep.gpu.torch_state_layout import lay_out_states  # noqa: E402
from kvsweep.gpu.torch_states import StateMixer  # noqa: E402

CPU = torch.device("cpu")

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("scattered", [True, False])
@pytest.mark.parametrize("batch", BATCHES)
def test_a_layout_is_the_same_told_by_tables_and_by_slots(batch, scattered):
    layout = lay_out(batch, CPU, scattered=scattered)
    for row, (new, used) in enumerate(
        zip(layout.starts_q.diff().tolist(), layout.used.tolist(), strict=True)
    ):
        places = torch.arange(used)
        if scattered:
            slots = layout.tables[row, places // 16].long() * 16 + places % 16
        else:
            slots = layout.starts_k[row] + places
        begin = int(layout.starts_q[row])
        assert torch.equal(layout.slots[begin : begin + new], slots[used - new :].long())
        assert torch.equal(layout.positions[begin : begin + new], places[used - new :])
    assert int(layout.slots.max()) < 16 * blocks_needed([batch])


def test_a_chunk_gives_what_the_whole_prompt_gives():
    for config, make in ((DENSE, Attention), (WINDOWS, Attention), (LATENT, LatentAttention)):
        shard = shard_of(config, "m", 1)
        kit = build_kit(CPU, fp8=False)
        extra = (shard.kinds[0], kit, 2, "gathered") if make is Attention else (kit, 2)
        attention = make(shard, *extra)
        x = torch.randn(20, 64, dtype=torch.bfloat16)

        def run(batch, part, attention=attention):
            layout = lay_out(batch, CPU, scattered=False)
            return attention(part, layout, attention.angles(layout))

        whole = run(Batch(20, 0, 0, 0), x)
        torch.testing.assert_close(
            run(Batch(8, 12, 0, 0), x[12:]), whole[12:], rtol=0.05, atol=0.05
        )


def test_experts_compute_what_each_token_is_sent_to():
    shard = shard_of(WINDOWS, "m", 1)
    mlp = ExpertMlp(64, shard.experts, build_kit(CPU, fp8=False))
    x = torch.randn(11, 64, dtype=torch.bfloat16)
    scores, chosen = (x @ mlp._router.t()).topk(2, dim=-1)
    expected = torch.zeros(11, 64)
    for token in range(11):
        for weight, expert in zip(scores[token].softmax(-1), chosen[token], strict=True):
            inner = silu_gate(mlp._into._weights[expert] @ x[token])
            expected[token] += weight * (mlp._back._weights[expert] @ inner)
    torch.testing.assert_close(mlp(x).float(), expected, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("name", MODELS)
def test_layers_and_head_run_on_every_batch_that_is_laid_out(name):
    shard = shard_of(MODELS[name], name, 1)
    batches = plan(Ranges(64, 4, 128, 512), trials=1, rungs=3, seed=0).batches
    kit = build_kit(CPU, fp8=False)
    inputs = draw_inputs(shard, batches, CPU)
    for kind in shard.kinds:
        stack = LayerStack(
            shard,
            kind,
            kit,
            copies=2,
            blocks=blocks_needed(batches),
            kernel="gathered",
            inputs=inputs,
            scan="chunks",
            states=5,
        )
        for batch in batches[::3]:
            for out in stack.prepare(batch)():
                assert out.shape == (batch.tokens, 64)
                assert torch.isfinite(out).all()
    logits = HeadStack(shard, kit, 2, inputs).prepare(batches[-1])()
    assert [part.shape for part in logits] == [(batches[-1].sampled, 256)] * 2


def test_eight_bits_keep_a_row_to_a_few_percent():
    values = torch.randn(5, 64) * torch.logspace(-3, 3, 5)[:, None]
    made, scale = to_fp8(values)
    assert made.dtype == torch.float8_e4m3fn
    error = (made.float() * scale - values).norm(dim=1) / values.norm(dim=1)
    assert (error < 0.05).all()


@pytest.mark.parametrize("fast", [False, True])
def test_products_of_eight_bits_are_those_of_the_weights_to_a_few_percent(fast):
    product = Linear(64, 32, fp8=True, device=CPU, quantize=to_fp8, fast_accum=fast)
    x = torch.randn(5, 64, dtype=torch.bfloat16)
    expected = x.float() @ (product._weights.float() * product._scale.t()).t()
    made = product(x)
    assert made.dtype == torch.bfloat16
    assert (made.float() - expected).norm() < 0.05 * expected.norm()


@pytest.mark.skipif(not torch.backends.cuda.is_built(), reason="needs PyTorch built for CUDA")
@pytest.mark.parametrize("kernel", ["paged", "packed"])
@pytest.mark.parametrize("fp8", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_calls_of_cuda_have_the_shapes_that_pytorch_wants(name, fp8, kernel, monkeypatch):
    """Tensors without data take the GPU's path where there is none; PyTorch checks each call."""
    from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def emptied(layout, device):
        made = {field.name: getattr(layout, field.name) for field in fields(layout)}
        tensors = {key: value for key, value in made.items() if isinstance(value, torch.Tensor)}
        empty = {
            key: torch.empty(value.shape, dtype=value.dtype, device=device)
            for key, value in tensors.items()
        }
        return replace(layout, **empty)

    def without_data(batch, device, **options):
        with unset_fake_temporarily():
            layout = lay_out(batch, CPU, **options)
        return emptied(layout, device)

    def states_without_data(*arguments):
        with unset_fake_temporarily():
            layout = lay_out_states(*arguments[:-1], CPU)
        return emptied(layout, arguments[-1])

    monkeypatch.setattr(torch_layer, "lay_out", without_data)
    monkeypatch.setattr(torch_layer, "lay_out_states", states_without_data)
    shard = shard_of(MODELS[name], name, 2)
    # To choose between cuDNN and FlashAttention it would ask the driver.
    with FakeTensorMode(), sdpa_kernel([SDPBackend.FLASH_ATTENTION]):
        gpu = torch.device("cuda", 0)
        kit = replace(build_kit(CPU, fp8), device=gpu, fast_accum=fp8)
        inputs = draw_inputs(shard, BATCHES, gpu)
        for kind in shard.kinds:
            blocks = blocks_needed(BATCHES)
            stack = LayerStack(
                shard,
                kind,
                kit,
                copies=2,
                blocks=blocks,
                kernel=kernel,
                inputs=inputs,
                scan="chunks",
                states=5,
            )
            for batch in BATCHES:
                for out in stack.prepare(batch)():
                    assert (out.shape, out.dtype) == ((batch.tokens, 64), torch.bfloat16)
                    assert out.device.type == "cuda"


def test_a_layer_adds_its_attention_and_its_mlp_each_of_the_norm_before_it():
    shard = shard_of(DENSE, "m", 1)
    layer = Layer(shard, shard.kinds[0], build_kit(CPU, fp8=False), 2, "gathered")
    layout = lay_out(Batch(6, 0, 0, 0), CPU, scattered=False)
    angled = layer.attention.angles(layout)
    stream, given = torch.randn(2, 6, 64, dtype=torch.bfloat16)

    def norm(x):
        return torch.nn.functional.rms_norm(x, x.shape[-1:], eps=EPSILON)

    expected = stream + given
    expected = expected + layer.attention(norm(expected), layout, angled)
    residual, last = layer(stream, given, layout, angled)
    torch.testing.assert_close(residual, expected)
    torch.testing.assert_close(last, layer._mlp(norm(expected)))


@pytest.mark.parametrize("norms", [False, True])
def test_queries_and_keys_are_turned_and_values_are_not(norms):
    made = torch.randn(3, 7, 8, dtype=torch.bfloat16)
    angled = angles(torch.arange(3), 8)
    parts = made.split([4, 1, 2], dim=1)
    if norms:
        parts = [torch.nn.functional.rms_norm(x, (8,), eps=EPSILON) for x in parts[:2]] + [parts[2]]
    expected = torch.cat((*(rotated(x, *angled) for x in parts[:2]), parts[2]), dim=1)
    torch.testing.assert_close(turned(made, *angled, 5, norms), expected)


def test_layers_of_one_part_add_what_it_gives_of_the_norm_before_it():
    shard = shard_of(STATES, "m", 1)
    kit = build_kit(CPU, fp8=False)
    stream, given = torch.randn(2, 9, 64, dtype=torch.bfloat16)
    expected = stream + given
    normed = torch.nn.functional.rms_norm(expected, (64,), eps=EPSILON)
    names = [kind.name for kind in shard.kinds]
    layer = Layer(shard, shard.kinds[names.index("mlp")], kit, 2, "gathered")
    residual, last = layer(stream, given, None, None)
    torch.testing.assert_close(residual, expected)
    inner = (normed @ layer._mlp._into._weights.t()).relu() ** 2
    torch.testing.assert_close(last, inner @ layer._mlp._back._weights.t(), rtol=0.02, atol=0.02)

    mixer = StateMixer(64, shard.mamba, kit, 1, "chunks")
    layer = Layer(shard, shard.kinds[names.index("state")], kit, 2, "gathered", mixer)
    layout = lay_out_states([(9, 0)], 0, 8, CPU)
    residual, last = layer(stream, given, layout, None)
    torch.testing.assert_close(residual, expected)
    torch.testing.assert_close(last, mixer(normed, layout, None))


def test_a_norm_with_a_gate_is_that_of_each_group():
    x, gate = torch.randn(2, 3, 4, 5, dtype=torch.bfloat16)
    made = x.double() * gate.double() * gate.double().sigmoid()
    expected = made / (made.pow(2).mean(-1, keepdim=True) + EPSILON).sqrt()
    torch.testing.assert_close(gated_norm(x, gate).double(), expected, rtol=0.01, atol=0.01)


def test_attention_without_rotary_embeddings_has_none():
    """Nemotron-H's: tokens before one can change places, and it attends to the same."""
    shard = shard_of(STATES, "m", 1)
    assert not shard.rotary
    attention = Attention(shard, shard.kinds[2], build_kit(CPU, fp8=False), 1, "gathered")
    layout = lay_out(Batch(9, 0, 0, 0), CPU, scattered=False)
    x = torch.randn(9, 64, dtype=torch.bfloat16)
    turned = attention.angles(layout)
    last = attention(x, layout, turned)[-1]
    order = [3, 1, 0, 2, 7, 6, 5, 4, 8]
    torch.testing.assert_close(attention(x[order], layout, turned)[-1], last, rtol=0.05, atol=0.05)
