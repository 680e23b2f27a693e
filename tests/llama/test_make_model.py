import sys

import pytest

from kvsweep.errors import InputError
from kvsweep.llama.make_model import ModelShape, make_model

SMALL = ModelShape(layers=2, dim=32, heads=2, context=64, vocab=600)


def test_heads_must_divide_the_embedding(tmp_path):
    with pytest.raises(InputError, match="--dim: 32 is not a multiple of the 3 heads"):
        make_model(tmp_path / "m.gguf", ModelShape(dim=32, heads=3))


def test_without_the_extra_the_command_that_installs_it_is_told(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(InputError, match=r"pip install 'kvsweep\[llama\]'"):
        make_model(tmp_path / "m.gguf", SMALL)


@pytest.fixture
def gguf():
    return pytest.importorskip("gguf", reason="the extra kvsweep[llama] is not installed")


def test_the_same_seed_gives_the_same_bytes(gguf, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        make_model(tmp_path / name, SMALL, seed=seed)
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b
    assert a != c
    assert len(a) == len(c)


def test_the_file_says_what_it_is(gguf, tmp_path):
    make_model(tmp_path / "m.gguf", SMALL)
    reader = gguf.GGUFReader(tmp_path / "m.gguf")
    value = {name: field.contents() for name, field in reader.fields.items()}
    assert value["general.architecture"] == "gpt2"
    assert value["gpt2.context_length"] == 64
    assert len(value["tokenizer.ggml.tokens"]) == 600
    assert value["tokenizer.ggml.eos_token_id"] == 599
    assert len(reader.tensors) == 2 + 2 * 12 + 2


def test_a_file_that_cannot_be_written_is_told(gguf, tmp_path):
    with pytest.raises(InputError, match=r"none/m\.gguf: cannot be written: No such file"):
        make_model(tmp_path / "none" / "m.gguf", SMALL)
