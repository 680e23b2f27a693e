"""The real llama.cpp: caches, errors, and the experiment's three findings at reduced size."""

import pytest

pytest.importorskip("llama_cpp", reason="the extra kvsweep[llama] is not installed")

from kvsweep.analysis.prefix_cost import prefix_cost
from kvsweep.errors import InputError
from kvsweep.llama import trial
from kvsweep.llama.design import Design, parse_sizes
from kvsweep.llama.experiment import measure_prefix
from kvsweep.llama.llama_load import load_llama
from kvsweep.llama.make_model import ModelShape, make_model
from kvsweep.llama.words import WORDS

SHAPE = ModelShape(layers=4, dim=256, heads=4, context=640, vocab=2000)
DESIGN = Design(parse_sizes("384:128,256:256,128:384"), trials=5, query=16, pause_s=0.0, output=10)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "made.gguf"
    make_model(path, SHAPE)
    return path


@pytest.fixture(scope="module")
def runtime(model):
    return load_llama(model, DESIGN.context, threads=1)


def test_the_made_tokenizer_works(runtime):
    text = " ".join(["", *WORDS])
    tokens = runtime.tokenize(text)
    assert len(tokens) == len(WORDS)
    assert runtime.detokenize(tokens) == text
    for odd in ("Zürich, 1943!\n", "unheard-of words", ""):
        assert runtime.detokenize(runtime.tokenize(odd)) == odd


def test_a_generation_is_the_same_each_time(runtime):
    prompt = runtime.tokenize(" the old house near the river")
    outputs = []
    for _ in range(2):
        runtime.clear()
        tokens = runtime.generate(prompt)
        outputs.append([next(tokens) for _ in range(10)])
    assert outputs[0] == outputs[1]
    assert not any(map(runtime.is_end, outputs[0]))
    assert runtime.is_end(SHAPE.vocab - 1)


def test_only_what_is_not_cached_is_computed_and_clear_forgets_all(runtime):
    prompt = list(range(300, 500))
    runtime.clear()
    for length, computed in ((150, 150), (200, 50), (200, 1), (151, 1), (152, 1)):
        next(runtime.generate(prompt[:length]))
        assert (runtime.computed_tokens(), runtime.cached_tokens()) == (computed, length)
    next(runtime.generate(prompt[1:100]))
    assert runtime.computed_tokens() == 99
    runtime.clear()
    assert runtime.cached_tokens() == 0
    next(runtime.generate(prompt[1:100]))
    assert runtime.computed_tokens() == 99


def test_the_runtime_says_what_it_is(runtime, model):
    about = runtime.attributes
    assert about["runtime_version"].count(".") == 2
    assert (about["model_architecture"], about["model_context"]) == ("gpt2", 640)
    assert (about["model_file"], about["threads"], about["gpu_layers"]) == (model.name, 1, 0)
    assert len(about["model_sha256"]) == 64


@pytest.fixture
def by_tokens(runtime, monkeypatch):
    """A runtime whose clock is what it computes, at a millisecond a token."""
    now = 0.0
    generate = runtime.generate

    def counted(prompt):
        nonlocal now
        for made, token in enumerate(generate(prompt)):
            now += 1e-3 * (1 if made else runtime.computed_tokens())
            yield token

    monkeypatch.setattr(runtime, "generate", counted)
    monkeypatch.setattr(trial, "perf_counter", lambda: now)
    return runtime


def test_the_three_findings_show(by_tokens):
    """By what is computed: times of a machine that is busy with something else show anything."""
    ds = measure_prefix(by_tokens, DESIGN)
    assert (ds["computed_tokens"].sel(condition="hit") == 16).all()
    assert (ds["computed_tokens"].sel(condition="miss") == ds["context_b"] + 16).all()
    assert (ds["text_tokens"] == ds["token_count"]).all()
    assert (ds["completion_tokens"] == 10).all()
    cost = prefix_cost(ds)
    for name, medians in (("hit", [16, 16, 16]), ("miss", [144, 272, 400])):
        assert [size.ttft_ms[name].median for size in cost.sizes] == pytest.approx(medians)
    assert (cost.miss.r2, cost.hit_slope_share) == pytest.approx((1, 0))
    assert cost.throughput_ratio == pytest.approx(1)


def test_an_end_at_once_is_flagged(runtime, monkeypatch):
    monkeypatch.setattr(runtime, "is_end", lambda token: True)
    ds = measure_prefix(runtime, Design(parse_sizes("20:10"), trials=1, pause_s=0.0, output=5))
    assert (ds["early_eos"] == 1).all()
    assert (ds["ttft_ms"] > 0).all()
    assert ds["throughput_tok_s"].isnull().all()


def test_a_prompt_beyond_the_context_is_told(runtime):
    with pytest.raises(InputError, match=r"llama\.cpp failed"):
        next(runtime.generate([300] * 5000))
    runtime.clear()


def test_a_context_longer_than_the_models_is_told(model):
    with pytest.raises(InputError, match="take 641 tokens, more than the model's context of 640"):
        load_llama(model, 641, threads=1)


def test_a_missing_model_is_told(tmp_path):
    with pytest.raises(InputError, match=r"none\.gguf: cannot read: No such file"):
        load_llama(tmp_path / "none.gguf", 10, threads=1)


@pytest.mark.parametrize("length", [4, 100, 20_000, 1_000_000, -10])
def test_a_truncated_model_is_told_in_one_line(model, tmp_path, capfd, length):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(model.read_bytes()[:length])
    with pytest.raises(InputError, match=r"broken\.gguf: llama\.cpp cannot load it: .+") as told:
        load_llama(broken, 100, threads=1)
    assert "\n" not in str(told.value)
    assert capfd.readouterr() == ("", "")


def test_another_file_is_told(tmp_path):
    (tmp_path / "text").write_text("no model")
    with pytest.raises(InputError, match="text: is no GGUF file"):
        load_llama(tmp_path / "text", 100, threads=1)
