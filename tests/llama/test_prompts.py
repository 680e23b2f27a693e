import pytest
from fake_runtime import FakeRuntime

from kvsweep.errors import InputError
from kvsweep.llama.design import Design, Size
from kvsweep.llama.prompts import build_prompts, segment


class ByLetter(FakeRuntime):
    """A tokenizer that makes a token of every letter, the space included."""

    def tokenize(self, text):
        return [ord(letter) for letter in text]

    def detokenize(self, tokens):
        return "".join(map(chr, tokens))


@pytest.mark.parametrize("runtime", [FakeRuntime(), ByLetter()], ids=["words", "letters"])
def test_prompts_have_exactly_their_tokens(runtime):
    prompts = build_prompts(runtime, Design((), query=7), Size(31, 20))
    lengths = {name: len(prompt.tokens) for name, prompt in prompts.items()}
    assert lengths == {"warmup": 51, "hit": 58, "miss": 27}
    warmup, hit, miss = (prompts[name].tokens for name in ("warmup", "hit", "miss"))
    assert hit[:51] == warmup
    assert miss == hit[31:]
    for prompt in prompts.values():
        assert runtime.tokenize(prompt.text) == list(prompt.tokens)
        assert prompt.text_tokens == len(prompt.tokens)


def test_a_miss_finds_no_prefix():
    for seed in range(300):
        prompts = build_prompts(FakeRuntime(), Design((), query=1, seed=seed), Size(1, 1))
        assert prompts["warmup"].tokens[0] != prompts["miss"].tokens[0]


def test_the_seed_makes_the_words():
    texts = [
        build_prompts(FakeRuntime(), Design((), seed=seed), Size(9, 9))["hit"].text
        for seed in (0, 0, 1)
    ]
    assert texts[0] == texts[1] != texts[2]


def test_a_word_is_cut_where_none_fits():
    class Tripling(FakeRuntime):
        def tokenize(self, text):
            return 3 * super().tokenize(text)

    tokens = segment(Tripling(), 7, "seed")
    assert len(tokens) == 7
    assert tokens[0] == tokens[2] != tokens[3] == tokens[5] != tokens[6]


def test_words_that_all_begin_alike_are_taken():
    class Prefixing(FakeRuntime):
        def tokenize(self, text):
            return [99, *super().tokenize(text)]

    assert segment(Prefixing(), 6, "seed", unlike=99)[0] == 99


def test_a_tokenizer_without_tokens_is_told(monkeypatch):
    runtime = FakeRuntime()
    monkeypatch.setattr(runtime, "tokenize", lambda text: [])
    with pytest.raises(InputError, match="makes no tokens of words"):
        segment(runtime, 7, "seed")
