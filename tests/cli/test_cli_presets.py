"""``kvsweep presets``: what comes with kvsweep, and how long steps take by it."""

import json
from pathlib import Path

import pytest

from kvsweep.calibrate.known import CONTEXT, MANY, PROMPT, known_presets
from kvsweep.config.preset import preset_names
from kvsweep.trace_replay import run_replay

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("page", "words"), [("docs/presets.md", []), ("README.md", ["llama-3.1-8b"])]
)
def test_the_pages_show_what_it_prints(run, page, words):
    code, out, err = run("presets", *words)
    assert (code, err) == (0, "")
    shown = f"$ kvsweep presets {' '.join(words)}".rstrip()
    assert f"{shown}\n{out}```" in (ROOT / page).read_text(encoding="utf-8")


def test_every_preset_is_listed_and_tells_its_source(run):
    found = json.loads(run("presets", "--json")[1])["presets"]
    assert [each["name"] for each in found] == preset_names()
    assert all(each["source"] for each in found)
    assert {each["times"] for each in found} == {"measured", "fitted", "published", "computed"}
    for each in found:
        assert (each["times"] == "computed") == each["name"].endswith("-roofline")


def test_words_choose_by_parts_of_names(run):
    found = json.loads(run("presets", "H200", "70b", "--json")[1])["presets"]
    assert [each["name"] for each in found] == [
        "llama-3.1-70b/h200/tp2-roofline",
        "llama-3.1-70b/h200/tp4",
        "llama-3.1-70b/h200/tp8",
    ]


def test_words_that_no_name_has_are_refused(run):
    code, out, err = run("presets", "h100", "gemma")
    assert (code, out) == (2, "")
    assert err == "kvsweep: WORD: no preset has h100 and gemma; `kvsweep presets` lists all\n"


@pytest.mark.parametrize(
    "name",
    ["llama-3.1-8b/h100/tp2", "llama-3.1-8b/h200/tp1", "gpt-oss-120b/h100/tp2-roofline"],
)
def test_the_times_are_the_kernels(name):
    """Of a linear one, of two sums, and of one with experts and a window."""
    (known,) = (each for each in known_presets() if each.name == name)

    def step(requests, prompt, index):
        rows = [
            {"id": i, "arrival_us": 0, "prompt": [[i, prompt]], "output": [999 + i, 3]}
            for i in range(requests)
        ]
        engine = {"max_num_batched_tokens": 65_536, "max_num_seqs": 64}
        scenario = {"engine": engine, "cache": {"gpu_blocks": 9_000}, "latency": {"model": name}}
        trace = {"format": "kvsweep-trace/1", "scenario": scenario, "requests": rows}
        return run_replay(trace).steps["duration_us"][index] / 1e3

    assert known.one_ms == pytest.approx(step(1, CONTEXT, 1), abs=0.001)
    assert known.many_ms == pytest.approx(step(MANY, CONTEXT, 1), abs=0.001)
    assert known.prompt_ms == pytest.approx(step(1, PROMPT, 0), abs=0.001)


def test_a_models_name_on_hugging_face_is_a_word(run):
    found = run("presets", "Qwen/Qwen3-32B", "h100")
    assert found[0] == 0
    assert found == run("presets", "qwen3-32b", "h100")
    assert run("presets", "own/model-tp8")[0] == 2
