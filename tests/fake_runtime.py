"""A runtime without a model: its clock moves by what is computed, so times are exact."""

from itertools import count

from kvsweep.llama import trial

END = -1

# Seconds of the fake clock.
PER_PROMPT_TOKEN = 0.001
PER_OUTPUT_TOKEN = 0.004


class FakeRuntime:
    """Reuses the longest cached prefix; one token per word.

    Parameters
    ----------
    end_after : int or None
        Tokens of an output after which the model ends it.
    fail_at : int or None
        Call of `generate`, from 0, that raises `failure`.
    """

    def __init__(self, end_after=None, fail_at=None, failure=KeyboardInterrupt):
        self.attributes = {
            "runtime": "fake",
            "runtime_version": "1",
            "model_file": "fake.gguf",
            "threads": 1,
        }
        self.now = 0.0
        self.cache = []
        self.calls = count()
        self.end_after, self.fail_at, self.failure = end_after, fail_at, failure
        self.words = {}
        self.computed = 0

    def install(self, monkeypatch):
        """Make trials run by this runtime's clock."""
        monkeypatch.setattr(trial, "perf_counter", lambda: self.now)
        monkeypatch.setattr(trial, "sleep", self._wait)
        return self

    def _wait(self, seconds):
        self.now += seconds

    def tokenize(self, text):
        return [self.words.setdefault(word, len(self.words)) for word in text.split()]

    def detokenize(self, tokens):
        names = list(self.words)
        return "".join(f" {names[token]}" for token in tokens)

    def is_end(self, token):
        return token == END

    def clear(self):
        self.cache = []

    def cached_tokens(self):
        return len(self.cache)

    def generate(self, prompt):
        if next(self.calls) == self.fail_at:
            raise self.failure
        pairs = zip(self.cache, prompt, strict=False)
        same = next(
            (i for i, (a, b) in enumerate(pairs) if a != b), min(len(self.cache), len(prompt))
        )
        self.computed = len(prompt) - min(same, len(prompt) - 1)
        self._wait(PER_PROMPT_TOKEN * self.computed)
        self.cache = list(prompt)
        for made in count():
            token = END if made == self.end_after else prompt[made % len(prompt)]
            yield token
            self._wait(PER_OUTPUT_TOKEN)
            self.cache.append(token)

    def computed_tokens(self):
        return self.computed
