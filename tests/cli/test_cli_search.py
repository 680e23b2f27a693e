"""``kvsweep size`` and ``kvsweep cliff --search`` as a user meets them."""

import json
import re

import pytest
from sweeping import CLIFF, write_sweep

from kvsweep.search.answer_records import Margin
from kvsweep.search.text import _margin_text

SWEEP = """
[workload]
requests = 60
rate = 500.0

[cluster]
instances = 2

[latency]
model = "llama-3.1-8b/h100/tp2"

[grid]
"cache.gpu_blocks" = { start = 600, stop = 1800, step = 50 }
seed = { count = 4 }
"""

TARGET = ("--target", "preemption_rate<=0.05")


@pytest.fixture
def sweep(tmp_path):
    return str(write_sweep(tmp_path, SWEEP + CLIFF.replace("0.5", "0.05")))


def test_size_tells_the_answer_what_was_tried_and_the_flags(run, sweep):
    code, out, _ = run("size", sweep, "--find", "blocks", *TARGET)
    assert code == 0
    assert "smallest gpu_blocks that keeps preemption_rate <= 0.05: " in out
    assert "within <- answer" in out
    assert "vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 2" in out
    assert "margin: preemption_rate" in out
    assert "breaks first: preemption_rate, past its limit at 1,2" in out


SIZE = """
[size]
find = "blocks"
targets = ["preemption_rate<=0.05"]
between = [700, 1700]
tolerance = 0.03
"""


def test_size_takes_what_the_sweep_file_asks_for(run, tmp_path):
    sweep = str(write_sweep(tmp_path, SWEEP + SIZE))
    found = json.loads(run("size", sweep, "--json")[1])
    options = ("--find", "blocks", *TARGET, "--between", "700:1700", "--tolerance", "0.03")
    plain = str(write_sweep(tmp_path, SWEEP, "plain.toml"))
    assert found["groups"] == json.loads(run("size", plain, *options, "--json")[1])["groups"]
    assert found["range"] == [700, 1700]


def test_options_of_size_come_before_the_table(run, tmp_path):
    sweep = str(write_sweep(tmp_path, SWEEP + SIZE))
    out = run("size", sweep, "--target", "preemption_rate<=0.1", "--between", "800:1600")[1]
    assert "preemption_rate <= 0.1: " in out
    assert "gpu_blocks 800 to 1,600" in out
    # a range of blocks is none of instances
    narrow = ("--set", "cache.gpu_blocks=[1700]", "--budget", "40", "--json")
    assert json.loads(run("size", sweep, "--find", "instances", *narrow)[1])["range"] == [1, 64]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("size.find=block", "allowed: blocks, instances, rate"),
        ("size.between=[5]", "size.between: expected two numbers"),
        ("size.between=[9,5]", "size.between: expected two numbers"),
        ("size.between=[5.5,9]", "size.between: 5.5:9: expected LOW:HIGH, two whole numbers"),
        ("size.targets=['preemption_rat<=1']", "size.targets: preemption_rat<=1: no measure"),
        ("size.targets=[]", "--target: missing"),
        ("size.tolerance=2", "size.tolerance: must be less than 1"),
        ("size.fnd=1", "did you mean 'find'"),
        ("size.attainment=0.9", "size.attainment: needs service levels"),
    ],
)
def test_mistakes_in_the_table_are_told_at_its_keys(run, tmp_path, change, message):
    sweep = str(write_sweep(tmp_path, SWEEP + SIZE))
    code, out, err = run("size", sweep, "--set", change)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_size_as_json_has_the_documented_fields(run, sweep):
    code, out, _ = run("size", sweep, "--find", "blocks", *TARGET, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["goal"] == "smallest"
    assert (found["along"], found["units"], found["range"]) == ("gpu_blocks", "block", [600, 1800])
    assert found["targets"] == ["preemption_rate <= 0.05"]
    (group,) = found["groups"]
    assert group["outcome"] == "crosses"
    assert group["low"] <= group["crossing"] <= group["high"]
    assert isinstance(group["answer"], int)
    assert sum(c["seeds"] for c in group["candidates"]) == group["simulations"]
    assert set(group["served"]) == {"command", "instances", "notes"}


def test_cliff_search_takes_what_the_sweep_asks_for(run, sweep):
    code, out, _ = run("cliff", sweep, "--search")
    assert code == 0
    assert "preemption_rate <= 0.05 ends at 1,2" in out
    assert "95% CI" in out
    assert "Recommended, at gpu_blocks 1,2" in out


def test_values_from_a_million_on_are_written_whole(run, tmp_path):
    text = (SWEEP + CLIFF.replace("0.5", "0.05").replace('"gpu_blocks"', '"gpu_tokens"')).replace(
        '"cache.gpu_blocks" = { start = 600, stop = 1800, step = 50 }',
        '"cache.gpu_tokens" = { start = 1000000, stop = 2000000, step = 160 }',
    )
    text = text.replace(
        "requests = 60\n", 'requests = 60\nprompt = { dist = "constant", value = 60000 }\n'
    ).replace("[grid]", "[cache]\nblock_size = 160\n\n[grid]")
    code, out, _ = run("cliff", str(write_sweep(tmp_path, text)), "--search")
    assert code == 0
    assert "1,000,000 to 2,000,000 tokens" in out
    assert re.search(r"Recommended, at gpu_tokens 1,\d{3},\d{3}:", out)
    assert "e+06" not in out


@pytest.mark.parametrize(
    ("room", "written"),
    [(0.27, "27"), (1.0, "100"), (0.0077, "0.77"), (0.00092, "0.092"), (-0.0, "0"), (None, None)],
)
def test_a_margin_is_never_rounded_away(room, written):
    left = "" if written is None else f" ({written} % left)"
    assert _margin_text(Margin("x", 3.0, 4.0, room)) == f"x 3 of 4{left}"


def test_what_is_never_met_and_met_everywhere_is_said(run, sweep):
    code, out, _ = run("size", sweep, "--find", "blocks", "--target", "ttft_p99_ms<=1")
    assert code == 0
    assert "ttft_p99_ms <= 1 holds nowhere from 600 to 1,800 blocks" in out
    assert "vllm serve" not in out
    assert "\n\n\n" not in out
    _, out, _ = run("size", sweep, "--find", "blocks", "--target", "ttft_p99_ms<=100000")
    assert "600, the end of the range: it is kept everywhere, less may do" in out


def test_a_measure_that_gets_better_is_not_said_to_hold_nowhere(run, sweep):
    target = ("--target", "throughput_rps>=8", "--between", "1:500")
    code, out, _ = run("size", sweep, "--find", "rate", *target, "--set", "cache.gpu_blocks=1800")
    assert code == 0
    assert "within" in out
    assert "throughput_rps >= 8 does not hold at 1 and does at 500: a measure that gets" in out
    assert "has no highest rate here" in out


def test_service_levels_that_are_asked_for_stand_beside_the_targets(run, sweep):
    levels = ("--find", "blocks", *TARGET, "--goodput", "ttft:100000")

    def limits(*more):
        return json.loads(run("size", sweep, *levels, *more, "--json")[1])["targets"]

    both = ["preemption_rate <= 0.05", "slo_attainment >= 0.99"]
    assert limits() == both
    assert limits("--attainment", "0.9") == [both[0], "slo_attainment >= 0.9"]
    assert limits("--target", "goodput_rps>=1") == [both[0], "goodput_rps >= 1"]


def test_where_nothing_fits_no_further_simulation_is_hinted_at(run, sweep):
    _, out, _ = run("size", sweep, "--find", "blocks", *TARGET, "--between", "1:20")
    assert out.startswith(
        "no value from 1 to 20 blocks is shown to keep preemption_rate <= 0.05; "
        "at 20 requests are dropped or simulations have no result\n"
    )


def test_a_budget_that_is_used_up_is_said(run, sweep):
    _, out, _ = run("cliff", sweep, "--search", "--tolerance", "0.001", "--budget", "60")
    assert "the next simulations would be more than --budget allows" in out
    _, out, _ = run("size", sweep, "--find", "blocks", *TARGET, "--budget", "1")
    assert "with these simulations\n\n  the next simulations would be more" in out
    assert "\n0 simulations; " in out


@pytest.mark.parametrize("memory", ["[cache]\ngpu_tokens = 32000", ""])
def test_blocks_that_follow_from_tokens_are_not_searched(run, tmp_path, memory):
    text = SWEEP.replace("[grid]", f"{memory}\n[grid]")
    axis = '"cache.gpu_blocks" = { start = 600, stop = 1800, step = 50 }'
    other = '"engine.max_num_seqs" = [16, 32]' if memory else '"cache.block_size" = [16, 32]'
    sweep = str(write_sweep(tmp_path, text.replace(axis, other)))
    code, out, err = run("size", sweep, "--find", "blocks", *TARGET)
    assert (code, out) == (2, "")
    assert "give cache.gpu_blocks instead" in err
    assert len(err.splitlines()) == 1


OWN_BLOCKS = (
    "pools = [{ instances = 1, gpu_blocks = 500 }, { instances = 1, gpu_blocks = 900 }]",
    "kv_transfer_bandwidth = 100.0\nprefill = { instances = 1, gpu_blocks = 500 }\n"
    "decode = { instances = 1, gpu_blocks = 900 }",
)


@pytest.mark.parametrize("pools", OWN_BLOCKS)
def test_blocks_that_all_pools_have_themselves_are_not_searched(run, tmp_path, pools):
    axis = '"cache.gpu_blocks" = { start = 600, stop = 1800, step = 50 }'
    text = SWEEP.replace("instances = 2", pools).replace(axis, "")
    code, out, err = run("size", str(write_sweep(tmp_path, text)), "--find", "blocks", *TARGET)
    assert (code, out) == (2, "")
    assert "--find blocks: cache.gpu_blocks has no effect where all pools have their own" in err
    assert len(err.splitlines()) == 1


def test_fewest_instances_are_called_so(run, tmp_path):
    axis = '"cache.gpu_blocks" = { start = 600, stop = 1800, step = 50 }'
    sweep = str(write_sweep(tmp_path, SWEEP.replace(axis, '"cache.gpu_blocks" = [1600]')))
    wanted = ("--find", "instances", "--target", "preemption_rate<=0.05", "--between", "1:8")
    _, out, _ = run("size", sweep, *wanted)
    assert "fewest instances that keep preemption_rate <= 0.05: " in out
    assert "instances 1 to 8, limits" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("size", "no.toml", "--find", "blocks", *TARGET), "no.toml"),
        (("size", "SWEEP", *TARGET), "--find: missing; give it, or [size]"),
        (("size", "SWEEP", "--find", "block", *TARGET), "'block' is not one of"),
        (("size", "SWEEP", "--find", "blocks"), "--target: missing"),
        (("size", "SWEEP", "--find", "blocks", "--attainment", "0.9"), "needs service levels"),
        (("size", "SWEEP", "--find", "blocks", *TARGET, "--workers", "0"), "workers"),
        (
            ("size", "SWEEP", "--find", "blocks", *TARGET, "--between", "5:5"),
            "two whole numbers above 0, the lower first, as in 1:64",
        ),
        (("cliff", "SWEEP"), "is a sweep, not a store; --search looks for its cliff"),
        (("cliff", "SWEEP", "--search", "--at", "policy=x"), "--at: not with --search"),
        (("cliff", "x.zarr", "--tolerance", "0.1"), "--tolerance: only with --search"),
        (("cliff", "SWEEP", "--search", "--metric", "ttft"), "--metric: no measure 'ttft'"),
        (("cliff", "SWEEP", "--search", "--threshold", "nan"), "the limit is not a finite"),
        (("cliff", "SWEEP", "--search", "--threshold", "1e308"), "must be from -1e+18 to 1e+18"),
        (("size", "SWEEP", "--find", "blocks", "--target", "steps<=1e300"), "to 1e+18"),
        (
            ("size", "SWEEP", "--find", "blocks", *TARGET, "--set", "cache.gpu_tokens=32000"),
            "--set cache.gpu_tokens: ",
        ),
        (
            ("size", "SWEEP", "--find", "blocks", "--set", "slo.classes.batch.ttft_ms=9"),
            "no request is of this class",
        ),
        (("cliff", "SWEEP", "--search", "--along", "rate"), "no axis 'rate' to search along"),
    ],
)
def test_mistakes_are_told_in_one_line(run, sweep, arguments, message):
    code, out, err = run(*(sweep if word == "SWEEP" else word for word in arguments))
    assert code == 2
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1


def test_a_measure_that_rises_and_falls_is_told_where_to_search(run, sweep):
    """Goodput is that of few requests at low rates, and of few that are in time at high ones."""
    asked = ("--find", "rate", "--set", "cache.gpu_blocks=1800", "--goodput", "ttft:40")
    asked += ("--target", "goodput_rps>=8")
    _, out, _ = run("size", sweep, *asked, "--between", "1:5000")
    found = re.search(r"does not hold at 1, does at ([\d.]+) and not at 5,000", out)
    assert found
    between = f"{found[1]}:5000"
    assert f"search from there, --between {between}" in out
    _, out, _ = run("size", sweep, *asked, "--between", between)
    assert "highest rate that keeps goodput_rps >= 8: " in out


def test_seeds_that_are_equal_are_not_said_to_show_anything(run, sweep):
    """Where 16 seeds preempt nothing, one in ten may."""
    _, out, _ = run("size", sweep, "--find", "blocks", "--target", "preemption_rate<=0")
    told = out.splitlines()[0]
    assert "(preemption_rate equal in all 16 seeds: what less than 0.17 of all seeds show" in told
    assert "confidence" not in told


def test_few_seeds_are_said_to_tell_little(run, sweep):
    size = ("size", sweep, "--find", "blocks", "--target", "preemption_rate<=0.3")
    for asked in (size, ("cliff", sweep, "--search")):
        _, out, _ = run(*asked, "--max-seeds", "3")
        assert "3 seeds: intervals rest on little; 20 or more are usual)" in out.splitlines()[0]


def test_an_answer_of_one_list_is_said_to_be_exact_only_where_it_is(run, sweep):
    """Other seeds are other lists here: --max-seeds and --budget leave one."""
    _, out, _ = run("cliff", sweep, "--search", "--max-seeds", "1")
    assert "(one request list: exact for it, and no interval for others)\n" in out
    _, out, _ = run("cliff", sweep, "--search", "--budget", "5")
    assert "(one request list: no interval)\n" in out
    assert "exact" not in out


def test_seeds_with_a_trace_each_are_as_many_as_the_sweep_has(run, tmp_path):
    """Further seeds have no files: the search ended with one that cannot be read."""
    for seed in range(3):
        rows = [f"{i / 400},{400 + (i * 7 + seed) % 200},{100 + i % 90}" for i in range(60)]
        header = "arrival_s,prompt_tokens,output_tokens"
        (tmp_path / f"t{seed}.csv").write_text("\n".join([header, *rows]))
    of_trace = SWEEP.replace("requests = 60\nrate = 500.0", 'trace = "t{seed}.csv"')
    sweep = str(write_sweep(tmp_path, of_trace.replace("count = 4", "count = 3")))
    code, out, err = run("size", sweep, "--find", "blocks", *TARGET, "--json")
    assert (code, err.count("cannot read")) == (0, 0)
    (group,) = json.loads(out)["groups"]
    assert 1 < group["seeds"] <= 3


def test_an_axis_of_one_value_is_told_the_option_for_a_range(run, sweep):
    """`size` has an option for it; the message named only the values of the axis."""
    one = ("--set", "cache.gpu_blocks=[1234567]")
    code, _, err = run("size", sweep, "--find", "blocks", *TARGET, *one)
    assert code == 2
    told = "grid.cache.gpu_blocks: one value, 1234567; a search needs a range, its first value and "
    assert f"{told}its last; or give --between LOW:HIGH\n" in err
    assert "--between" not in run("cliff", sweep, "--search", *one)[2]


def test_values_that_are_within_by_too_few_seeds_are_told_apart(run, sweep):
    """The table called them within, and the sentence above it said that none is shown."""
    asked = ("size", sweep, "--find", "blocks", *TARGET)
    _, out, _ = run(*asked, "--budget", "12", "--max-seeds", "40")
    assert " within" in out
    assert "with these simulations: those within have too few seeds for an answer\n" in out
    _, out, _ = run(*asked, "--budget", "1")
    assert "too few seeds" not in out


def test_a_level_that_is_set_and_asked_for_is_told_by_both_options(run, sweep):
    """The message named --set alone, and said that it is given twice."""
    both = ("--goodput", "tpot:50", "ttft:400", "--set", "slo.ttft_ms=300")
    told = "kvsweep: --goodput ttft:400: --set slo.ttft_ms says it too; give one of them\n"
    assert run("size", sweep, "--find", "blocks", *both) == (2, "", told)
    assert run("grid", sweep, *both) == (2, "", told)


MODEL = """
[model]
preset = "qwen3-32b"
gpu = "l40s"
tp = 4
"""


@pytest.mark.parametrize("command", [("size", "--find", "instances", *TARGET), ("cliff",)])
def test_a_search_tells_that_blocks_are_estimated_and_step_times_computed(run, tmp_path, command):
    """Only `kvsweep grid` did, which nobody needs before a search."""
    text = SWEEP.replace('[latency]\nmodel = "llama-3.1-8b/h100/tp2"', MODEL)
    axis = '"workload.rate" = [5.0, 10.0]' if command[0] == "cliff" else ""
    text = re.sub(r'"cache\.gpu_blocks" = .*', axis, text)
    name, *options = command
    if name == "cliff":
        options = ["--search", *("--metric", "preemption_rate", "--threshold", "0.05")]
        options += ["--along", "rate", "--budget", "10"]
    found = run(name, str(write_sweep(tmp_path, text)), *options)
    assert re.search(
        r"^model: qwen3-32b, tp 4, pp 1 on l40s: [\d,]+ usable blocks, .*; estimated, .*; step "
        r"times computed, not measured$",
        found[2],
        re.MULTILINE,
    )
    assert "caution: computed step times are too short: what 4 l40s exchange is left" in found[2]
    assert "model:" not in found[1]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("cliff", "--search", "--along", "gpu_blocks"), "--along: 'gpu_blocks' is drawn by"),
        (("cliff", "--search", "--along", "sample"), "--along: no axis 'sample'"),
        (("size", "--find", "blocks"), "--find blocks: 'cache.gpu_blocks' is drawn by [design]"),
    ],
)
def test_what_a_design_draws_is_not_searched(run, tmp_path, command, message):
    ranges = '[design]\nsamples = 2\n"cache.gpu_blocks" = { from = 300, to = 1200 }\n\n[grid]\n'
    blocks = next(line for line in SWEEP.splitlines() if line.startswith('"cache'))
    sweep = write_sweep(tmp_path, SWEEP.replace(f"[grid]\n{blocks}\n", ranges))
    name, *options = command
    asked = TARGET if name == "size" else ("--metric", "preemption_rate", "--threshold", "0.05")
    code, _, err = run(name, str(sweep), *options, *asked)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


def test_an_answer_at_the_end_of_the_range_says_what_looks_further(run, sweep):
    _, out, _ = run("size", sweep, "--find", "blocks", "--target", "ttft_p99_ms<=100000")
    assert "kept everywhere, less may do; --between looks further\n" in out


def test_one_request_list_is_said_also_at_the_end_of_the_range(run, tmp_path):
    """It was said where a limit is crossed only."""
    (tmp_path / "t.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,32,4\n1,32,4\n")
    trace = SWEEP.replace("requests = 60\nrate = 500.0", 'trace = "t.csv"')
    sweep = str(write_sweep(tmp_path, trace.replace("{ count = 4 }", "[0]")))
    limit = ("--target", "ttft_p99_ms<=100000")
    _, out, _ = run("size", sweep, "--find", "blocks", *limit)
    assert "--between looks further (one request list: no interval)\n" in out
    _, out, _ = run("size", sweep, "--find", "instances", *limit, "--set", "cache.gpu_blocks=[900]")
    assert "1, the least there is (one request list: no interval)\n" in out


def test_a_search_tells_which_requests_of_a_log_are_left_out(run, tmp_path):
    """What is left out needs servers too, and nothing was said of it."""
    text = "arrival_s,prompt_tokens,output_tokens\n0,32,4\n1,32,4\n2,32,\n"
    (tmp_path / "t.csv").write_text(text)
    trace = 'trace = "t.csv"\nread = { failed = "leave-out" }'
    trace = SWEEP.replace("requests = 60\nrate = 500.0", trace)
    sweep = str(write_sweep(tmp_path, trace.replace("{ count = 4 }", "[0]")))
    err = run("size", sweep, "--find", "blocks", "--target", "ttft_p99_ms<=100000")[2]
    assert "trace: t.csv: without 1 of 3 requests, which failed" in err
