"""The speed of a CPU tier: from a link and a model, or in tokens; what sweeps say of it."""

from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsweep.config import load_sweep, parse_scenario, preset_names
from kvsweep.config.preset import Preset, load_preset
from kvsweep.config.roofline import Device, Shape
from kvsweep.config.transfer import links, pull_gb_per_s, transfer_text
from kvsweep.errors import InputError
from kvsweep.simulate.lane_records import lane_record
from kvsweep.sizing.shapes import load_model

SWEEPS = Path(__file__).parents[1] / "sweeps"
LLAMA_TOKEN = 2 * 32 * 8 * 128 * 2  # keys and values, layers, heads, channels, bytes
TP2 = {"model": "llama-3.1-8b/h100/tp2"}


def cache_of(cache, latency=None, rules="vllm"):
    given = {"engine": {"rules": rules}, "latency": latency or {"beta": [1]}, "cache": cache}
    return parse_scenario(given, "t.json").cache


def refused(cache, latency=None, rules="vllm"):
    with pytest.raises(InputError) as caught:
        cache_of(cache, latency, rules)
    return str(caught.value)


def test_the_default_is_vllms_way_over_the_link_of_the_hardware():
    cache = cache_of({"cpu_blocks": 5}, TP2)
    assert (cache.offload, cache.link) == ("write-through", "pcie5-x16")
    # Each of two GPUs holds half of the heads, and has a link of its own.
    assert cache.kv_bytes_per_token == LLAMA_TOKEN / 2
    assert cache.transfer_bandwidth == pytest.approx(55.6e9 / 1e6 / (LLAMA_TOKEN / 2), rel=1e-12)
    made = "0.848 tokens/us: 55.6 GB/s (pcie5-x16) over 65,536 bytes a token on each GPU"
    assert transfer_text(cache) == made


def test_the_kernel_gets_the_speed():
    latency = {"model": "llama-3.1-8b/a100/tp1-roofline"}
    scenario = parse_scenario({"cache": {"cpu_blocks": 5}, "latency": latency}, "t.json")
    assert lane_record(scenario)["bandwidth"] == pytest.approx(24.8e3 / LLAMA_TOKEN, rel=1e-12)


def test_rules_blis_keep_the_references_defaults():
    cache = cache_of({"cpu_blocks": 5}, rules="blis")
    assert (cache.offload, cache.transfer_bandwidth, cache.link) == ("watermark", 100.0, None)
    for key, value in (("link", "pcie4-x16"), ("link_gb_per_s", 9), ("kv_bytes_per_token", 9)):
        assert "rules 'blis' has transfer_bandwidth only" in refused({key: value}, rules="blis")


@given(st.floats(0.01, 1e6), st.floats(1, 1e7))
def test_a_speed_in_bytes_is_one_in_tokens(gb_per_s, token_bytes):
    cache = cache_of(
        {"cpu_blocks": 1, "link_gb_per_s": gb_per_s, "kv_bytes_per_token": token_bytes}
    )
    assert cache.transfer_bandwidth * token_bytes == pytest.approx(gb_per_s * 1000, rel=1e-12)


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_knows_its_link_and_bytes(name):
    preset = load_preset(name, Path())
    assert preset.link in links()
    model, _, times = name.split("/")
    tp = int(times.removeprefix("tp").partition("-")[0])
    caches = load_model(model).caches(tp, "bfloat16")
    assert preset.gpu_token_bytes == sum(cache.token_bytes for cache in caches)
    assert cache_of({"cpu_blocks": 5}, {"model": name}).transfer_bandwidth < 10


def test_more_devices_than_heads_have_each_a_head_to_keep_and_to_read():
    """As `kvsweep.sizing` has it: with 16 for eight heads, as much as with eight."""
    shape = Shape(layers=80, hidden=8192, heads=64, kv_heads=8, ffn=28672, vocab=128256)
    eight, sixteen = (
        Preset(
            model="m",
            hardware="h",
            kind="roofline",
            source="s",
            fit="f",
            shape=shape,
            device=device,
        )
        for device in (Device(flops=1e15, bandwidth=1e12, tp=tp) for tp in (8, 16))
    )
    assert sixteen.gpu_token_bytes == eight.gpu_token_bytes == 40960
    caches = load_model("llama-3.1-70b").caches(16, "bfloat16")
    assert sum(cache.token_bytes for cache in caches) == 40960
    terms = [preset.coefficients()["memory"] for preset in (eight, sixteen)]
    assert [each[1:4] for each in terms] == [pytest.approx((0.04096,) * 3)] * 2
    assert terms[0][0] == pytest.approx(2 * terms[1][0])


def test_every_link_says_who_measured_it_and_is_slower_than_its_peak():
    assert list(links()) == ["pcie4-x16", "pcie5-x16", "nvlink-c2c"]
    for link in links().values():
        assert 0.7 < link.gb_per_s / link.peak_gb_per_s < 0.9
        assert "measured" in link.source


@pytest.mark.parametrize(
    ("cache", "message"),
    [
        ({}, "cpu_blocks: the speed of transfers is not known; give cache.link (pcie4-x16, "),
        ({"link": "pcie4-x16"}, "not known; give cache.kv_bytes_per_token (of one GPU), or cache."),
        ({"kv_bytes_per_token": 8}, "nvlink-c2c) or cache.link_gb_per_s, or cache.transfer_band"),
        ({"link": "pcie4"}, "cache.link: unknown link 'pcie4'; allowed: pcie4-x16, pcie5-x16, nv"),
        ({"link": "pcie4-x16", "link_gb_per_s": 1}, "give either link or link_gb_per_s"),
        ({"link": "pcie4-x16", "transfer_bandwidth": 1}, "link: give either transfer_bandwidth or"),
        ({"link_gb_per_s": 5, "transfer_bandwidth": 1}, "per_s: give either transfer_bandwidth or"),
        (
            {"kv_bytes_per_token": 5, "transfer_bandwidth": 1},
            "per_token: give either transfer_band",
        ),
        ({"link_gb_per_s": 0}, "link_gb_per_s: must be at least 0.01"),
        ({"link_gb_per_s": 1e300}, "link_gb_per_s: must be at most 1000000"),
        ({"kv_bytes_per_token": 0}, "kv_bytes_per_token: must be at least 1"),
        ({"kv_bytes_per_token": 1e9}, "kv_bytes_per_token: must be at most 10000000"),
    ],
)
def test_a_speed_that_is_not_known_or_given_twice_is_refused(cache, message):
    assert message in refused({"cpu_blocks": 5} | cache)


def test_without_a_tier_no_speed_is_needed():
    assert cache_of({}).transfer_bandwidth is None


def test_a_trace_holds_what_the_speed_came_to():
    given = {"cache": {"cpu_blocks": 5, "link": "pcie4-x16"}, "latency": TP2}
    scenario = parse_scenario(given, "t.json")
    written = scenario.to_trace()["cache"]
    speed = scenario.cache.transfer_bandwidth
    assert written == {"cpu_blocks": 5, "offload": "write-through", "transfer_bandwidth": speed}
    again = parse_scenario(scenario.to_trace(), "t.json")
    assert lane_record(again) == lane_record(scenario)


def test_a_file_of_latencies_can_know_its_link(tmp_path):
    text = 'model = "m"\nhardware = "h"\nkind = "linear"\nbeta = [2]\nsource = "s"\nfit = "f"\n'
    known = f'{text}link = "nvlink-c2c"\nkv_bytes_per_token = 1000\ntp = 4\n'
    (tmp_path / "known.toml").write_text(known)
    (tmp_path / "unknown.toml").write_text(text)
    trace = str(tmp_path / "t.json")
    given = {"cache": {"cpu_blocks": 1}, "latency": {"model": "known.toml"}}
    assert parse_scenario(given, trace).cache.transfer_bandwidth == 375 * 1000 / 250
    for name, wrong, message in (
        ("unknown", text, "cache.cpu_blocks: the speed of transfers is not known"),
        ("link", known.replace("nvlink-c2c", "nvlink"), "latency.model: unknown link 'nvlink'"),
        ("bytes", known.replace("1000", "1"), "bytes.toml: 0.25 bytes of KV cache a token"),
    ):
        (tmp_path / f"{name}.toml").write_text(wrong)
        given["latency"] = {"model": f"{name}.toml"}
        with pytest.raises(InputError, match=message):
            parse_scenario(given, trace)


# What each sweep with a CPU tier was published with: (offload, tokens/us, base latency in us).
PROPOSAL = {("watermark", 10.0, 100)}
PUBLISHED = {
    "h10-bandwidth": {
        (how, speed, 10)
        for how in ("watermark", "write-through")
        for speed in (0.01, 0.1, 0.4, 1, 10, 50, 100, 500, 1000)
    },
    "h10-confound": {("watermark", 100.0, 10)},
    "h10-core": {("watermark", 100.0, 10), ("write-through", 100.0, 10)},
    "h10-cpu-size": {("watermark", 100.0, 10), ("write-through", 100.0, 10)},
    "h10-link": {
        ("write-through", speed, 10)
        for speed in (0.01, 0.02, 0.04, 0.06, 0.1, 0.2, 0.4, 1, 10, 100)
    },
    "h10-sessions": {
        ("watermark", 0.4, 10),
        ("write-through", 0.4, 10),
        ("write-through", 0.04, 10),
    },
    "hybrid-tier": {("vllm", 0.8, 10)},
    "joint-kv": PROPOSAL,
    "joint-kv-factors": {("watermark", 0.4, 100), ("watermark", 10.0, 100)},
    "joint-kv-ten": PROPOSAL,
    "published/h10-bandwidth": {("watermark", speed, 10) for speed in (10, 50, 100, 500, 1000)},
    "published/h10-confound": {("watermark", 100.0, 10)},
    "published/h10-core": {("watermark", 100.0, 10)},
    "published/h10-cpu-size": {("watermark", 100.0, 10)},
    **{f"published/{name}": PROPOSAL for name in ("idea6-a", "idea6-b", "ideas-a", "ideas-b")},
    "published/ideas-c": PROPOSAL,
    "tier-knee": {("vllm", 0.4, 10)},
    "tier-sessions": {("write-through", 0.4, 10), ("vllm", 0.4, 10), ("vllm", 0.04, 10)},
}
BY_LINK = {"states-tier", "states-mtp-tier", "tier-apart", "tier-sources"}
"""Those whose links and bytes per token tell."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_sweeps_with_a_tier_state_their_own_values(name):
    sweep = load_sweep(SWEEPS / f"{name}.toml")
    tiers = [probe.cache for probe in _all_points(sweep) if probe.cache.cpu_blocks > 0]
    found = {(c.offload, c.transfer_bandwidth, c.transfer_base_latency_us) for c in tiers}
    assert found == PUBLISHED[name]
    stated = {"offload", "transfer_bandwidth", "transfer_base_latency_us"}
    assert all(stated <= cache.model_fields_set for cache in tiers)


def test_no_sweep_with_a_tier_is_missing_above():
    texts = {path: path.read_text() for path in SWEEPS.rglob("*.toml")}
    with_tier = [path for path, text in texts.items() if "cpu_blocks" in text]
    names = {path.relative_to(SWEEPS).with_suffix("").as_posix() for path in with_tier}
    assert names == set(PUBLISHED) | BY_LINK


def _all_points(sweep):
    """Yield the scenario of every point of the grid."""
    axes = [axis for axis in sweep.axes if axis.key != "seed"]
    for values in product(*(axis.values for axis in axes)):
        yield sweep.scenario(dict(zip([axis.key for axis in axes], values, strict=True)))


@pytest.mark.parametrize(
    ("speed", "text"),
    [(1000.0, "1,000 tokens/us"), (100.0, "100 tokens/us"), (0.4, "0.4 tokens/us")],
)
def test_a_speed_is_written_without_powers_of_ten(speed, text):
    assert transfer_text(cache_of({"cpu_blocks": 5, "transfer_bandwidth": speed})) == text


def test_groups_of_layers_share_the_bytes_of_a_token():
    """What is moved is a block of one of them."""
    given = {"cpu_blocks": 5, "offload": "vllm", "kv_bytes_per_token": 49_152, "link_gb_per_s": 50}
    one = cache_of(given)
    groups = [{"kind": "full"}, {"kind": "sliding", "window": 128}]
    two = cache_of(given | {"groups": groups, "gpu_blocks": 100})
    assert two.transfer_bandwidth == 2 * one.transfer_bandwidth
    assert transfer_text(two).endswith(
        "over 49,152 bytes a token on each GPU, in blocks of one of 2 groups"
    )


def sides(usual, cache):
    """Return a scenario of which a prefill instance has one GPU."""
    prefill = {"instances": 1, "latency": {"model": "llama-3.1-8b/h100/tp1"}}
    cluster = {"kv_transfer_bandwidth": 0.381, "prefill": prefill, "decode": {"instances": 1}}
    return parse_scenario({"cache": cache, "latency": usual, "cluster": cluster}, "t.json")


@pytest.mark.parametrize(
    ("usual", "cache", "told"),
    [
        (TP2, {}, 49.94),
        (TP2, {"kv_bytes_per_token": LLAMA_TOKEN / 4}, 24.97),  # a byte for each channel
        ({"beta": [1]}, {}, 49.94),
        ({"beta": [1]}, {"kv_bytes_per_token": LLAMA_TOKEN / 2}, 24.97),  # of decode alone
    ],
)
def test_a_link_between_sides_is_that_of_each_gpu_where_these_are_fewer(usual, cache, told):
    assert pull_gb_per_s(sides(usual, cache)) == pytest.approx(told, rel=1e-3)
