"""What makes another sweep of one, though its first scenario stays as it was."""

import json

import pytest
from sweeping import make_sweep, stand_in, tree

import kvsweep
from kvsweep.config import sweep as sweeps
from kvsweep.config.canonical import SCENARIOS, canonical
from kvsweep.errors import InputError
from kvsweep.store import restored_sweep, scenarios_of

TEXT = """
title = "base"
question = "what if?"
workload.requests = 20
latency.beta = [1000, 10, 5]
cache.gpu_blocks = 500
[policies.small]
cache.gpu_blocks = 300
[policies.base]
cache.eviction = "lru"
[grid]
policy = ["small", "base"]
seed = { count = 4 }
"""
OTHER = TEXT.replace("= 500", "= 2000")
SAID = r"scenarios\.base\.cache\.gpu_blocks is 500 in the store, 2000 in the sweep"


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    stand_in(monkeypatch, 1e-9)


@pytest.fixture
def older(monkeypatch):
    """Let stores be made as before `SCENARIOS` was noted, until called."""

    def as_before(sweep):
        return {key: value for key, value in canonical(sweep).items() if key != SCENARIOS}

    with monkeypatch.context() as patch:
        patch.setattr(sweeps, "canonical", as_before)
        yield patch.undo


def run(tmp_path, text=TEXT, **options):
    options = {"out": "a.zarr", "workers": 1} | options
    return kvsweep.run(make_sweep(tmp_path, text), **options)


def test_a_base_that_the_first_policy_hides_is_told(tmp_path):
    found = [make_sweep(tmp_path, text).to_dict() for text in (TEXT, OTHER)]
    assert [one[SCENARIOS] for one in found] == [
        {"base": {"cache.gpu_blocks": 500}},
        {"base": {"cache.gpu_blocks": 2000}},
    ]
    assert found[0]["scenario"] == found[1]["scenario"]
    assert SCENARIOS not in make_sweep(tmp_path, TEXT.replace("= 500", "= 300")).to_dict()


def test_a_store_of_another_base_is_refused(tmp_path):
    run(tmp_path)
    before = tree(tmp_path / "a.zarr")
    with pytest.raises(InputError, match=f"made from another sweep: {SAID}"):
        run(tmp_path, OTHER)
    assert tree(tmp_path / "a.zarr") == before
    with pytest.raises(InputError, match=SAID):
        run(tmp_path, OTHER, extend=True)


def test_shares_of_two_bases_are_not_mixed(tmp_path):
    run(tmp_path, shard="1/2")
    with pytest.raises(InputError, match=SAID):
        run(tmp_path, OTHER, shard="2/2")
    run(tmp_path, OTHER, shard="2/2", out="b.zarr")
    with pytest.raises(InputError, match="cannot be merged"):
        kvsweep.merge(["a.zarr", "b.zarr"], out="m.zarr")


def test_an_older_store_is_compared_by_its_base(older, tmp_path):
    run(tmp_path)
    older()
    with pytest.raises(InputError, match=SAID):
        run(tmp_path, OTHER)
    with pytest.raises(InputError, match="is 500 in the store, 300 in the sweep"):
        run(tmp_path, TEXT.replace("= 500", "= 300"))
    begun = []
    found = run(tmp_path, TEXT + "# a comment", progress=lambda done, total: begun.append(done))
    assert set(begun) <= {8}, "nothing is simulated again"
    assert json.loads(found.attrs["sweep"])[SCENARIOS] == {"base": {"cache.gpu_blocks": 500}}
    assert kvsweep.verify("a.zarr", sample=0).ok
    with pytest.raises(InputError, match=SAID):
        run(tmp_path, OTHER)


def test_an_older_store_that_was_cut_short_goes_on(older, tmp_path):
    run(tmp_path, shard="1/2")
    older()
    begun = []
    run(tmp_path, progress=lambda done, total: begun.append(done))
    assert begun[0] > 0, "what was done is kept"
    run(tmp_path, out="b.zarr")
    assert kvsweep.open_results("a.zarr").equals(kvsweep.open_results("b.zarr"))
    assert kvsweep.verify("a.zarr", sample=0).ok


def test_older_shares_are_merged_and_older_stores_extended(older, tmp_path):
    for k in (1, 2):
        run(tmp_path, shard=f"{k}/2", out=f"{k}.zarr")
    older()
    merged = kvsweep.merge(["1.zarr", "2.zarr"], out="m.zarr")
    assert merged.equals(run(tmp_path))
    assert kvsweep.verify("m.zarr", sample=0).ok
    more = TEXT.replace("count = 4", "count = 6")
    assert run(tmp_path, more, out="m.zarr", extend=True).identical(
        run(tmp_path, more, out="n.zarr")
    )
    assert tree(tmp_path / "m.zarr") == tree(tmp_path / "n.zarr")


def test_without_its_files_an_older_store_has_what_its_base_says(older, tmp_path):
    run(tmp_path)
    told = dict(kvsweep.open_results("a.zarr").attrs)
    assert scenarios_of(told, []) is None
    assert scenarios_of(told, [tmp_path]) == {"base": {"cache.gpu_blocks": 500}}


PRESET = """
model = "m"
hardware = "h"
kind = "linear"
alpha = [0, 0, 500]
beta = [5000, 20, 10]
source = "made up"
fit = "made up"
"""
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 1024,
    "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 128,
    "intermediate_size": 2048, "vocab_size": 32000, "torch_dtype": "bfloat16",
    "max_position_embeddings": 8192,
}  # fmt: skip
OF_FILES = {
    "an axis": '[grid]\n"latency.model" = ["llama-3.1-8b/h100/tp2", "mine.toml"]',
    "a policy": (
        'latency.model = "llama-3.1-8b/h100/tp2"\n[policies.a]\nengine.max_num_seqs = 8\n'
        '[policies.b]\nlatency.model = "mine.toml"\n[grid]\npolicy = ["a", "b"]'
    ),
    "a pool": (
        'latency.model = "llama-3.1-8b/h100/tp2"\n[policies.a]\ncluster.instances = 2\n'
        '[policies.b]\ncluster.pools = [{ instances = 2, latency = { model = "mine.toml" } }]\n'
        '[grid]\npolicy = ["a", "b"]'
    ),
    "a config": (
        'latency.beta = [5000, 20, 10]\nmodel.kv_gib = 1\nmodel.config = "config.json"\n'
        '[grid]\n"model.config" = ["config.json", "c2.json"]'
    ),
}


@pytest.mark.parametrize("where", OF_FILES)
def test_a_store_of_another_preset_or_config_is_refused(where, tmp_path):
    text = f'title = "f"\nquestion = "?"\nworkload.requests = 20\n{OF_FILES[where]}\n'
    (tmp_path / "mine.toml").write_text(PRESET)
    for name in ("config.json", "c2.json"):
        (tmp_path / name).write_text(json.dumps(CONFIG))
    name, other = ("c2.json", json.dumps(CONFIG | {"num_hidden_layers": 16}))
    same = json.dumps(CONFIG, indent=1)
    if where != "a config":
        name, other = "mine.toml", PRESET.replace("500]", "50_000]")
        same = PRESET.replace('"made up"', '"measured"')
    assert name in json.loads(run(tmp_path, text).attrs["files"])
    for k in (1, 2):
        run(tmp_path, text, shard=f"{k}/2", out=f"{k}.zarr")
    (tmp_path / name).write_text(same)
    run(tmp_path, text)
    (tmp_path / name).write_text(other)
    changed = rf"made from another {name}: that file was changed or replaced since"
    if where == "a policy":
        changed += r"|scenarios\.b\.latency\.alpha\[2\] is 500.0 in the store, 50000.0"
    for options in ({}, {"extend": True}):
        with pytest.raises(InputError, match=changed):
            run(tmp_path, text, **options)
    with pytest.raises(InputError, match=f"({changed}).*; merge with the files it was made"):
        kvsweep.merge(["1.zarr", "2.zarr"], out="m.zarr")


def test_stores_of_another_preset_of_the_base_are_not_merged(tmp_path):
    text = 'title = "f"\nquestion = "?"\nworkload.requests = 20\nlatency.model = "mine.toml"\n'
    text += '[grid]\n"cache.gpu_blocks" = [100, 200]\n'
    (tmp_path / "mine.toml").write_text(PRESET)
    for k in (1, 2):
        run(tmp_path, text, shard=f"{k}/2", out=f"{k}.zarr")
    (tmp_path / "mine.toml").write_text(PRESET.replace("5000", "6000"))
    with pytest.raises(InputError, match=r"latency\.beta\[0\] is 5000.0 in the store, 6000.0"):
        kvsweep.merge(["1.zarr", "2.zarr"], out="m.zarr")


def test_a_store_that_notes_no_presets_goes_on(monkeypatch, tmp_path):
    text = f'title = "f"\nquestion = "?"\nworkload.requests = 20\n{OF_FILES["an axis"]}\n'
    (tmp_path / "mine.toml").write_text(PRESET)
    with monkeypatch.context() as patch:
        patch.setattr("kvsweep.store.inputs._file_sums", lambda variants, folder: {})
        for k in (1, 2):
            assert "files" not in run(tmp_path, text, shard=f"{k}/2", out=f"{k}.zarr").attrs
        run(tmp_path, text)
    merged = kvsweep.merge(["1.zarr", "2.zarr"], out="m.zarr")
    begun = []
    found = run(tmp_path, text, progress=lambda done, total: begun.append(done))
    assert set(begun) <= {2}
    assert found.equals(merged)
    assert list(json.loads(found.attrs["files"])) == ["mine.toml"]
    (tmp_path / "mine.toml").write_text(PRESET.replace("500]", "50_000]"))
    with pytest.raises(InputError, match=r"another mine\.toml"):
        run(tmp_path, text)


HIDING = """
title = "two"
question = "what if?"
workload.requests = 20
latency.beta = [1000, 10, 5]
[policies.long]
workload.prompt = { dist = "constant", value = 700 }
engine.max_num_seqs = 8
[policies.usual]
cluster.instances = 2
[grid]
policy = ["long", "usual"]
seed = { count = 4 }
"""


@pytest.mark.parametrize("noted", [True, False])
def test_what_differs_between_policies_is_not_taken_from_the_first(older, noted, tmp_path):
    if noted:
        older()
    ds = run(tmp_path, HIDING)
    first, second = (ds.sel(policy=name) for name in ("long", "usual"))
    found = kvsweep.compare(first, second, "e2e_p99_ms")
    assert not found.same_requests
    told = {item.key: (item.a, item.b) for item in found.differing}
    assert told["workload.prompt.value"] == (700, None)
    assert told["workload.prompt.mean"] == (None, 512.0)
    assert told["engine.max_num_seqs"] == (8, 256)
    assert told["cluster.instances"] == (1, 2)
    assert not kvsweep.compare(ds, ds, "e2e_p99_ms").differing


def test_a_base_that_differs_for_one_policy_is_told_with_it(tmp_path):
    one, other = run(tmp_path), run(tmp_path, OTHER, out="b.zarr")
    found = kvsweep.compare(one, other, "e2e_p99_ms")
    assert [(d.key, d.a, d.b) for d in found.differing] == [
        ("policies.base.cache.gpu_blocks", 500, 2000)
    ]
    turned = run(tmp_path, TEXT.replace('"small", "base"', '"base", "small"'), out="c.zarr")
    assert not kvsweep.compare(one, turned, "e2e_p99_ms").differing
    more = run(tmp_path, TEXT.replace("= 20", "= 30"), out="d.zarr")
    found = kvsweep.compare(one, more, "e2e_p99_ms")
    assert [(d.key, d.a, d.b) for d in found.differing] == [("workload.requests", 20, 30)]
    assert not found.same_requests


def drawn(*ranges, seeds=2, method="sobol"):
    head = TEXT[: TEXT.index("[grid]")] + f"[design]\nmethod = '{method}'\nsamples = 4\n"
    axes = f"[grid]\npolicy = ['small', 'base']\nseed = {{ count = {seeds} }}\n"
    return "\n".join([head, *ranges, axes])


RANGES = (
    '"workload.rate" = { from = 20.0, to = 160.0 }',
    '"engine.max_num_seqs" = { from = 20, to = 256 }',
)
MOVED = r"design\.ranges\.{} is parameter 1 in {}, 2 in {}, which makes other points"


@pytest.mark.parametrize("method", ["sobol", "latin-hypercube", "saltelli"])
def test_a_design_whose_parameters_are_in_another_order_is_another(tmp_path, method):
    ds = run(tmp_path, drawn(*RANGES, method=method))
    before = tree(tmp_path / "a.zarr")
    said = MOVED.format(r"workload\.rate", "the store", "the sweep")
    for options in ({}, {"extend": True}):
        for seeds in (2, 3):
            turned = drawn(*reversed(RANGES), seeds=seeds, method=method)
            with pytest.raises(InputError, match=said):
                run(tmp_path, turned, **options)
    assert tree(tmp_path / "a.zarr") == before
    other = run(tmp_path, drawn(*reversed(RANGES), method=method), out="b.zarr")
    assert (other["rate"].values != ds["rate"].values).any()
    with pytest.raises(InputError, match="the two designs have other points"):
        kvsweep.compare(ds, other, "e2e_p99_ms")
    same = [text.replace("{ from = 20, to = 256 }", "{ to = 256, from = 20 }") for text in RANGES]
    again = run(tmp_path, drawn(*same, method=method))
    assert not kvsweep.compare(ds, again, "e2e_p99_ms").differing


def test_shares_of_designs_in_two_orders_are_not_mixed(tmp_path):
    for k, ranges in enumerate((RANGES, RANGES[::-1]), 1):
        run(tmp_path, drawn(*ranges, seeds=4), shard=f"{k}/2", out=f"{k}.zarr")
    one, other = (
        json.loads((tmp_path / f"{k}.zarr" / "zarr.json").read_text())["attributes"] for k in (1, 2)
    )
    assert one["identity"] != other["identity"]  # of parts, which may be copied
    said = MOVED.format(r"engine\.max_num_seqs", r"2\.zarr", r"1\.zarr")
    with pytest.raises(InputError, match=said):
        kvsweep.merge(["1.zarr", "2.zarr"], out="m.zarr")


def test_axes_in_another_order_are_told_and_their_cells_taken_over(tmp_path):
    axes = ['policy = ["small", "base"]', "seed = { count = 4 }"]
    turned = TEXT.replace("\n".join(axes), "\n".join(reversed(axes)))
    assert turned != TEXT
    run(tmp_path)
    said = r"grid\.policy is axis 1 in the store, 2 in the sweep; extend=True keeps its cells"
    with pytest.raises(InputError, match=said):
        run(tmp_path, turned)
    run(tmp_path, turned, extend=True)
    run(tmp_path, turned, out="b.zarr")
    assert tree(tmp_path / "a.zarr") == tree(tmp_path / "b.zarr")


SCORERS = ("queue-depth = 1", "kv-utilization = 2", "load-balance = 3")


def weighted(scorers, which="base", seeds=2):
    """A sweep with such scorers of the base, of its second policy, or of the base for that one."""
    given = f"cluster.scorers = {{ {', '.join(scorers)} }}\n"
    other = "cluster.scorers = { kv-pressure = 1 }\n"
    base, first, second = {
        "base": (given, "", ""),
        "second": (other, "", given),
        "hidden": (given, other, ""),
    }[which]
    text = TEXT.replace("count = 4", f"count = {seeds}")
    text = text.replace("[policies.small]\n", f"[policies.small]\n{first}")
    text = text.replace("[policies.base]\n", f"[policies.base]\n{second}")
    return f'cluster.instances = 2\ncluster.routing = "weighted"\n{base}{text}'


@pytest.mark.parametrize(
    ("which", "table"),
    [("base", "scenario"), ("second", r"policies\.base"), ("hidden", r"scenarios\.base")],
)
def test_scorers_in_another_order_add_up_otherwise_and_are_refused(tmp_path, which, table):
    ds = run(tmp_path, weighted(SCORERS, which))
    said = rf"{table}\.cluster\.scorers\.queue-depth is scorer 1 in the store, 3 in the sweep, by "
    turned = SCORERS[::-1]
    for options, seeds in (({}, 2), ({"extend": True}, 2), ({"extend": True}, 3)):
        with pytest.raises(InputError, match=said):
            run(tmp_path, weighted(turned, which, seeds), **options)
    other = run(tmp_path, weighted(turned, which), out="b.zarr")
    found = [json.loads((tmp_path / f"{s}.zarr" / "zarr.json").read_text()) for s in "ab"]
    assert found[0]["attributes"]["identity"] != found[1]["attributes"]["identity"]
    run(tmp_path, weighted(SCORERS, which))
    told = {d.key: (d.a, d.b) for d in kvsweep.compare(ds, other, "e2e_p99_ms").differing}
    names = [one.partition(" ")[0] for one in SCORERS]
    key = "cluster.scorers" if which == "base" else "policies.base.cluster.scorers"
    assert told == {key: (", ".join(names), ", ".join(names[::-1]))}


def test_keys_that_the_kvsweep_of_a_store_did_not_know_are_not_told_as_set_in_it(
    tmp_path, monkeypatch
):
    """A release that brings a key said of each store of before that it is None there."""

    def as_before(sweep):
        found = canonical(sweep)
        del found["scenario"]["engine"]["max_num_seqs"]
        return found

    with monkeypatch.context() as patch:
        patch.setattr(sweeps, "canonical", as_before)
        patch.setattr("kvsweep.simulate.source_hash", lambda: "0123")
        run(tmp_path, shard="1/2")
    with pytest.raises(InputError, match=r"a\.zarr: made by other sources of the simulator, 0"):
        run(tmp_path)
    run(tmp_path, shard="2/2", out="b.zarr")
    with pytest.raises(InputError, match=r"cannot be merged with b\.zarr: made by other sources"):
        kvsweep.merge(["b.zarr", "a.zarr"], out="m.zarr")
    with pytest.raises(InputError, match=r"scenario\.workload\.requests is 20 in"):
        run(tmp_path, TEXT.replace("= 20\n", "= 30\n"), shard="2/2", out="b.zarr")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("base", text) for text in ("[]", "null", "{", '{"cache": 3}')],
        *[("sweep", text) for text in ("{}", '{"grid": {}}', "[]", "{")],
        ("base", None),
    ],
)
def test_attributes_that_are_no_sweeps_are_told_in_one_line(tmp_path, name, value):
    """A dataset whose attributes somebody has changed ended in a traceback."""
    told = {"sweep": json.dumps(canonical(make_sweep(tmp_path, TEXT))), "base": "{}", "toml": TEXT}

    def restored():
        sweep = restored_sweep(told | {name: value}, tmp_path / "a.zarr", tmp_path)
        return sweep.scenario(sweep.first_point)

    with pytest.raises(InputError) as problem:
        restored()
    assert "\n" not in str(problem.value)
