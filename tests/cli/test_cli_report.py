"""`kvsweep report`: a page that is whole, in which nothing of a sweep is taken for markup."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from stores import write_store
from sweeping import BASE, CLIFF, GRID, fake_batch, make_sweep, write_sweep

import kvsweep
from kvsweep.errors import InputError
from kvsweep.report.table import table
from kvsweep.webpage.elements import paragraphs, shortened

EVIL = "<script>alert(1)</script>"
SWEEP = BASE.replace('title = "small"', f'title = "{EVIL}"')
POLICIES = f"""
[policies.'{EVIL}']
cluster.routing = "least-loaded"
[policies.'a --> "b" & $x_1']
cluster.routing = "round-robin"
"""
NAMED = GRID.replace(
    '["round-robin", "least-loaded"]', f"""['{EVIL}', 'a --> "b" & $x_1']"""
)  # fmt: skip


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("kvsweep.simulate.simulate_batch", fake_batch)
    monkeypatch.setattr("kvsweep.simulate.warm_up", lambda *_: None)


@pytest.fixture
def store(tmp_path):
    text = SWEEP + POLICIES + NAMED + CLIFF
    write_sweep(tmp_path, text)
    write_store("a.zarr", text)
    return "a.zarr"


class Elements(HTMLParser):
    """Counts elements, and looks for what would be loaded."""

    def __init__(self, page):
        super().__init__()
        self.found, self.ids, self.loaded, self.text = [], [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append(tag)
        attributes = dict(attrs)
        self.ids.append(attributes.get("id"))
        self.loaded += [
            value
            for name, value in attrs
            if name in ("src", "href", "xlink:href") and not value.startswith("#")
        ]

    def handle_data(self, data):
        self.text.append(data)


def page_of(path):
    return Elements(path.read_text())


def test_a_report_has_question_answer_figures_tables_and_the_file(run, store, tmp_path):
    code, out, err = run("report", store)
    assert (code, out, err) == (0, "a-report.html\n", "")
    page = page_of(tmp_path / "a-report.html")
    words = " ".join(page.text)
    assert "what if?" in words
    assert "preemption_rate passes 0.5 at 132.5 blocks (95% CI" in words
    assert 'along = "gpu_blocks"' in words
    assert page.found.count("svg") >= 2
    assert {"table", "figcaption", "details"} <= set(page.found)


def test_what_a_sweep_is_called_is_text_and_nothing_is_loaded(run, store, tmp_path):
    run("report", store, "-o", "page.html")
    text = (tmp_path / "page.html").read_text()
    page = Elements(text)
    assert "script" not in page.found
    assert EVIL in "".join(page.text)
    assert page.loaded == []
    assert not re.findall(r"@import|url\((?!#)", text)
    assert "var(--c0)" in text
    names = [name for name in page.ids if name]
    assert len(names) == len(set(names))
    used = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text)
    assert {one or other for one, other in used} <= set(names)


def test_a_report_is_the_same_each_time_and_replaces_nothing_unasked(run, store, tmp_path):
    file = tmp_path / "page.html"
    run("report", store, "-o", file.name)
    first = file.read_bytes()
    code, _, err = run("report", store, "-o", file.name)
    assert code == 2
    assert err == "kvsweep: --out page.html: is there already; --overwrite replaces it\n"
    _, out, _ = run("report", store, "-o", file.name, "--overwrite", "--json")
    assert json.loads(out) == {"stores": [store], "report": file.name}
    assert file.read_bytes() == first


def test_two_stores_are_compared(run, store, tmp_path):
    other = SWEEP.replace("instances = 2", "instances = 3") + POLICIES + NAMED + CLIFF
    kvsweep.run(make_sweep(tmp_path, other), out="b.zarr", workers=1)
    assert run("report", store, "b.zarr", "--compare", "-o", "two.html")[0] == 0
    page = page_of(tmp_path / "two.html")
    words = " ".join(page.text)
    assert "Difference of preemption_rate" in words
    assert words.count("Difference of ") == 3
    assert words.count("What differs:") == 1
    assert "cluster.instances" in words
    assert "script" not in page.found
    assert run("report", store, "b.zarr", "-o", "both.html")[0] == 0
    assert page_of(tmp_path / "both.html").found.count("h1") == 2


def test_of_an_axis_that_one_store_has_a_value_is_chosen_as_the_message_says(run, store, tmp_path):
    grid = NAMED.replace("seed =", '"engine.max_num_seqs" = [8, 16]\nseed =')
    kvsweep.run(make_sweep(tmp_path, SWEEP + POLICIES + grid + CLIFF), out="b.zarr", workers=1)
    code, _, err = run("report", store, "b.zarr", "--compare", "-o", "two.html")
    assert code == 2
    assert "no such axis in A: choose one, --at-b max_num_seqs=VALUE" in err
    chosen = ("--at-b", "max_num_seqs=8", "--at-a", "gpu_blocks=100", "--at-b", "gpu_blocks=100")
    assert run("report", store, "b.zarr", "--compare", *chosen, "-o", "two.html")[::2] == (0, "")
    assert "engine.max_num_seqs" in " ".join(page_of(tmp_path / "two.html").text)


def test_a_sweep_without_a_question_has_a_report_too(run, tmp_path):
    kvsweep.run(make_sweep(tmp_path, BASE + '[grid]\n"cache.gpu_blocks" = [100]\n'), out="c.zarr")
    assert run("report", "c.zarr")[0] == 0
    assert "What was simulated" in " ".join(page_of(tmp_path / "c-report.html").text)


def test_effects_that_are_refused_are_told_beside_a_cliff_too(run, store, monkeypatch):
    def refused(*_):
        raise InputError("effects: no value")

    monkeypatch.setattr("kvsweep.webpage.one_store.refuse_none", refused)
    assert run("report", store)[0] == 0
    assert "No effects: effects: no value" in " ".join(page_of(Path("a-report.html")).text)


@pytest.mark.parametrize("method", ["saltelli", "sobol"])
def test_the_report_of_a_design_tells_what_its_parameters_do(run, tmp_path, method):
    design = "[design]\n" + f'method = "{method}"\nsamples = 8\n'
    design += '"cache.gpu_blocks" = { from = 100, to = 400 }\n'
    design += '"workload.rate" = { from = 40.0, to = 200.0 }\n[grid]\nseed = { count = 2 }\n'
    kvsweep.run(make_sweep(tmp_path, BASE + design), out="d.zarr", workers=1)
    assert run("report", "d.zarr")[0] == 0
    words = " ".join(page_of(tmp_path / "d-report.html").text)
    indices = method == "saltelli"
    assert ("explains" in words) == ("first: share of the variance" in words) == indices
    assert ("No effects: " in words) == (not indices)
    assert "not drawn" not in words  # of curves, which a design has none of, and nobody asked for


@pytest.mark.parametrize("at", ["gpu_blocks=100", f"policy={EVIL}"])
def test_a_part_of_a_store_is_told_as_far_as_it_goes(run, store, tmp_path, at):
    """Of one value of the cliff's axis there is no cliff, and the report says so."""
    code, _, err = run("report", store, "--at", at, "-o", "part.html")
    assert (code, err) == (0, "")
    words = " ".join(page_of(tmp_path / "part.html").text)
    alone = "No cliff: axis: 'gpu_blocks' is 100 alone, as selected: nothing lies along it"
    assert (alone in words) == (at == "gpu_blocks=100")
    assert "What was simulated" in words


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "missing a store"),
        (["a.zarr", "--compare"], "--compare: needs two stores, got 1"),
        (["a.zarr", "--at-b", "x=1"], "--at-b: has no effect without --compare"),
        (["a.zarr", "--metric", "ttft_p99_ms"], "--metric: has no effect without --compare"),
        (["a.zarr", "-o", "page.pdf"], "is written as .html"),
        (["a.zarr", "-o", "nowhere/page.html"], "there is no folder 'nowhere'"),
        (["b.zarr"], "b.zarr"),
        (["a.zarr", "--at", "gpu_block=100"], "did you mean 'gpu_blocks'"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(run, store, tmp_path, words, told):
    code, _, err = run("report", *words)
    assert code == 2
    (line,) = err.splitlines()
    assert told in line
    assert not list(tmp_path.glob("*.html"))


def test_of_a_long_answer_the_first_lines_are_shown_and_the_others_when_asked_for():
    lines = [f"line {n}" for n in range(15)]
    shown, rest = shortened(lines).split("<details>")
    assert shown == paragraphs(lines[:12])
    assert "<summary>3 more</summary>" in rest
    assert paragraphs(lines[12:]) in rest
    assert shortened(lines[:12]) == paragraphs(lines[:12])


def test_a_page_on_paper_tells_what_is_folded(run, store, tmp_path):
    run("report", store, "-o", "page.html")
    style = (tmp_path / "page.html").read_text().split("</style>")[0]
    assert "details { display: none; }" not in style


def test_each_of_several_fronts_is_in_the_answer(run, tmp_path):
    fronts = '[pareto]\nobjectives = ["preemption_rate:min", "throughput_rps:max"]\n'
    kvsweep.run(make_sweep(tmp_path, BASE + GRID + fronts), out="a.zarr", workers=1)
    run("report", "a.zarr", "-o", "page.html")
    page = (tmp_path / "page.html").read_text()
    answer = page.split('<div class="answer">')[1].split("</div>")[0]
    assert answer.count(": front over policy: ") == 7
    assert "gpu_blocks 100: front over policy: " in answer


@pytest.mark.filterwarnings("always::kvsweep.errors.PlainWarning")
def test_letters_that_no_font_has_are_told_once_for_all_figures(run, tmp_path, monkeypatch):
    monkeypatch.setattr("kvsweep.plot.fonts.WIDER", ())
    named = GRID.replace('"least-loaded"]', "'\u65b9\u91dd']")
    policy = "[policies.'\u65b9\u91dd']\ncluster.routing = 'least-loaded'\n"
    kvsweep.run(make_sweep(tmp_path, BASE + policy + named + CLIFF), out="a.zarr", workers=1)
    code, _, err = run("report", "a.zarr", "-o", "page.html")
    assert code == 0, err
    assert (tmp_path / "page.html").read_text().count("<figure") > 2
    assert err.count("boxes stand for what it lacks") == 1


def test_a_report_of_many_policies_draws_each_cliff_and_single_effects(run, tmp_path):
    names = [f"policy {letter}" for letter in "abcdefgh"]
    policies = "".join(f"[policies.'{name}']\ncluster.routing = 'least-loaded'\n" for name in names)
    many = GRID.replace('["round-robin", "least-loaded"]', str(names))
    many = many.replace("[grid]", '[grid]\n"engine.max_num_seqs" = [8, 16, 32, 64, 128, 256]')
    kvsweep.run(make_sweep(tmp_path, BASE + policies + many + CLIFF), out="a.zarr", workers=1)
    run("report", "a.zarr", "-o", "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "preemption_rate and its cliff: not drawn" not in page
    assert "Effects: not drawn" not in page
    assert "Effects of single changes" in page
    run("report", "a.zarr", "--at", "max_num_seqs=8", "-o", "one.html")
    page = (tmp_path / "one.html").read_text()
    assert "preemption_rate and its cliff: not drawn" not in page


def test_a_page_is_read_by_screen_readers_and_keys(run, store, tmp_path):
    run("report", store, "-o", "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.count("<main>") == page.count("</main>") == 1
    assert set(re.findall(r"<th\b[^>]*", page)) == {'<th scope="col"', '<th scope="col" class="n"'}
    figures = re.findall(r"<svg [^>]*", page)
    assert len(figures) > 2
    assert all('role="img" aria-label="' in figure for figure in figures)
    tables = re.findall(r"<div[^>]*><table>", page)
    assert set(tables) == {'<div class="wide" tabindex="0"><table>'}


def test_what_there_is_much_of_is_folded_with_the_first_of_it_shown(run, tmp_path):
    lines = [f"line {i}" for i in range(31)]
    assert paragraphs(lines[:30]).count("<br>") == 29
    first, between, last = re.split("<details>|</details>", paragraphs(lines))
    assert [re.findall(r"line (\d+)", part)[0] for part in (first, between, last)] == [
        *("0", "12", "27")
    ]
    assert between.startswith("<summary>15 more</summary>")
    many = GRID.replace("step = 10", "step = 2").replace("count = 6", "count = 3")
    fronts = '[pareto]\nobjectives = ["preemption_rate:min", "throughput_rps:max"]\n'
    kvsweep.run(make_sweep(tmp_path, BASE + many + fronts), out="a.zarr", workers=1)
    run("report", "a.zarr", "-o", "page.html")
    section = (tmp_path / "page.html").read_text().split("<h2>Pareto front</h2>")[1]
    shown, rest = section.split("<h2>")[0].split("<details>")
    assert [part.count(": front over policy: ") for part in (shown, rest)] == [12, 19]
    assert "3 seeds: intervals rest on little" in shown
    assert "rest on little" not in rest


def test_columns_of_long_names_are_not_as_narrow_as_a_word():
    found = page_table([("a-name-of-many-words-that-is-long", "[1, 2]"), ("short", "3")])
    assert '<td class="long">a-name' in found
    assert '<td class="long">short' in found
    assert '<td class="n">[1, 2]' in found
    assert "<td>a-name<" in page_table([("a-name", "1")])


def page_table(rows):
    return paragraphs([table(("", "interval"), rows)])


def test_captions_say_what_bands_are_where_there_are_any(run, tmp_path):
    for name, seeds in (("a", 3), ("b", 2), ("c", 1)):
        sweep = make_sweep(tmp_path, BASE + GRID + CLIFF, seeds=seeds)
        kvsweep.run(sweep, out=f"{name}.zarr", workers=1)
    told = {}
    for words in ("a.zarr", "c.zarr", "a.zarr b.zarr --compare", "a.zarr c.zarr --compare"):
        run("report", *words.split(), "-o", "page.html", "--overwrite")
        page = (tmp_path / "page.html").read_text()
        told[words] = re.findall("<figcaption>(.*?)</figcaption>", page)
    bands = "ttft_p99_ms along gpu_blocks: means over seeds, with 95% intervals"
    assert bands in told["a.zarr"]
    assert "ttft_p99_ms along gpu_blocks" in told["c.zarr"]
    assert "ttft_p99_ms, B minus A, with 95% intervals" in told["a.zarr b.zarr --compare"]
    assert "ttft_p99_ms, B minus A" in told["a.zarr c.zarr --compare"]


def test_of_many_curves_those_in_the_middle_of_an_axis_are_drawn_and_the_caption_says_so(
    run, tmp_path
):
    """Sixteen curves, of four policies at four rates, had no figure at all."""
    seqs = '[grid]\n"engine.max_num_seqs" = [8, 16, 32, 64, 128, 256]\n"workload.rate" = [1.0, 2.0]'
    many = (BASE + GRID + CLIFF).replace("[grid]", seqs)
    kvsweep.run(make_sweep(tmp_path, many, seeds=1), out="a.zarr", workers=1)
    for words, at in ((), ", at max_num_seqs 64"), (("--at", "max_num_seqs=8"), ""):
        run("report", "a.zarr", *words, "-o", "page.html", "--overwrite")
        page = (tmp_path / "page.html").read_text()
        assert f"ttft_p99_ms along gpu_blocks{at}" in re.findall("<figcaption>(.*?)</figc", page)
        assert "not drawn" not in page
