"""The page in a real Chromium: what it shows is what a run gives, and it ends with its window.

Needs Playwright (the extra `browser`) and an installed Chromium, `KVSWEEP_CHROMIUM` or one by a
usual name; `.ci/run` installs both. Latencies are printed, not asserted.
"""

import base64
import json
import os
import re
import shutil
import statistics
from pathlib import Path

import numpy as np
import pytest
from exploring import LONG, served

import kvsweep
from kvsweep.analysis.timeline import timeline_of
from kvsweep.config import load_sweep
from kvsweep.explorer.of_store import OfStore
from kvsweep.explorer.of_sweep import OfSweep
from kvsweep.explorer.pages import script
from kvsweep.plot.timeline_figure import heading
from kvsweep.trace_replay import run_replay

try:
    from playwright.sync_api import sync_playwright
except ModuleNotFoundError:
    pytest.skip("Playwright is not installed: pip install '.[browser]'", allow_module_level=True)

ROOT = Path(__file__).parents[2]
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = os.environ.get("KVSWEEP_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
if CHROMIUM is None:
    pytest.skip("no Chromium is installed: apt-get install chromium", allow_module_level=True)

SIZES = list(range(1400, 2400, 50))  # 20 of them, about the cliff
SWEEP = ROOT / "sweeps" / "h8.toml"
GIVEN = [f"cache.gpu_blocks={SIZES}"]
DONE = '.kvsweep[data-state="done"]'
ANSWERED = '.kvsweep:is([data-state="refining"], [data-state="done"])'
MS = 1000 * LONG


@pytest.fixture(scope="module")
def chromium():
    with sync_playwright() as playwright:
        # Containers let no user but root start it, whom it would leave without its sandbox.
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def server():
    with served(OfSweep(load_sweep(SWEEP, GIVEN))) as running:
        yield running


@pytest.fixture
def page(chromium, server):
    found = []
    context = chromium.new_context(viewport={"width": 1300, "height": 900})
    page = context.new_page()
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on("console", lambda said: found.append(said.text) if said.type == "error" else None)
    page.set_default_timeout(MS)
    page.goto(server.url)
    page.wait_for_selector(DONE)
    yield page
    context.close()
    assert found == []


def answer_of(page):
    return page.evaluate("document.querySelector('.kvsweep').answer")


def life_of(page):
    return page.evaluate("document.querySelector('.lives').answer")


def latency_of(page):
    return float(page.get_attribute(".kvsweep", "data-latency"))


def typed(page, key, value):
    field = page.locator(f'[data-key="{key}"] input[type=text]')
    field.fill(str(value))
    field.press("Enter")


def slid(page, key, place):
    """Hold the slider of a key and move it: one event of input."""
    page.evaluate(
        """([key, place]) => {
            const slider = document.querySelector(`[data-key="${key}"] input[type=range]`);
            slider.value = String(place);
            slider.dispatchEvent(new Event("input", { bubbles: true }));
        }""",
        [key, place],
    )


def run(tmp_path, seeds, *overrides):
    sweep = load_sweep(SWEEP, [*GIVEN, "policy=round-robin", *overrides], seeds)
    return kvsweep.run(sweep, out=tmp_path / "run.zarr").squeeze("policy", drop=True)


def test_a_page_opens_a_slider_moves_and_the_curve_is_that_of_a_run(page, tmp_path, capsys):
    slid(page, "workload.rate", 60)
    page.wait_for_selector(DONE)
    value = page.input_value('[data-key="workload.rate"] input[type=text]')
    answer = answer_of(page)
    ds = run(tmp_path, answer["seeds"], f"workload.rate={value}")
    assert answer["axis"]["values"] == SIZES
    mean = ds["preemption_rate"].mean("seed").values
    assert np.array(answer["measures"][0]["curves"][0]["mean"]) == pytest.approx(mean, rel=1e-12)
    (group,) = kvsweep.find_cliff(ds).groups
    told = answer["cliff"]["groups"][0]
    assert told["value"] == pytest.approx(group.mean_curve.value, rel=1e-12)
    assert (told["low"], told["high"]) == (group.interval.low, group.interval.high)
    assert page.inner_text(".card.a .big") == f"{group.mean_curve.value:,.0f} blocks"
    assert page.locator(".main path.line.a").count() == 1


def test_a_scenario_without_a_cliff_is_told_what_the_command_says(page):
    page.fill(".main .limit", "1e6")
    page.press(".main .limit", "Enter")
    page.wait_for_selector(".card.a .big:has-text('none here')")
    told = answer_of(page)["cliff"]["groups"][0]["sentence"]
    assert told.startswith("preemption_rate does not pass 1,000,000")
    assert page.inner_text(".card.a .faint") == told


def test_a_close_up_between_two_points_shows_the_curves_of_all_charts(page):
    box = page.locator(".main svg.chart").bounding_box()
    pixels = (box["width"] - 84) / (SIZES[-1] - SIZES[0])
    start, end = (box["x"] + 58 + (size - SIZES[0]) * pixels for size in (1505, 1545))
    page.mouse.move(start, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(end, box["y"] + 60)
    page.mouse.up()
    page.wait_for_selector("text=Whole range")
    measures = answer_of(page)["measures"][1:]
    means = [measure["curves"][0]["mean"][2:4] for measure in measures]
    assert any(min(mean) > 1 for mean in means)
    for small, mean in zip(page.locator(".beside svg.chart").all(), means, strict=True):
        levels = small.locator('text.tick[text-anchor="end"]').all_text_contents()
        if min(mean) > 1:
            assert max(float(text.replace(",", "")) for text in levels) > 0.5 * min(mean)
        assert small.locator('text.tick[text-anchor="middle"]').count() > 1


def test_latencies_are_printed(page, capsys):
    moves = []
    for place in range(100, 109):
        slid(page, "workload.rate", place)
        page.wait_for_selector(ANSWERED)
        moves.append(latency_of(page))
    page.reload()
    page.wait_for_selector(ANSWERED)
    drawn = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
    with capsys.disabled():
        print(f"\npage after {drawn or 0:.0f} ms, first curve {latency_of(page):.0f} ms later;")
        print(f"a slider moved, 20 sizes x 10 seeds: median {statistics.median(moves):.0f} ms")
    assert len(moves) == 9


def test_of_two_quick_moves_the_last_one_stays(page):
    key = "workload.output.mean"
    for place in (140, 90, 150, 100):
        slid(page, key, place)
    page.wait_for_selector(DONE)
    field = page.input_value(f'[data-key="{key}"] input[type=text]')
    asked = json.loads(page.evaluate("decodeURIComponent(location.hash.slice(1))"))
    assert asked["scenarios"] == [{key: float(field)}]
    last = answer_of(page)
    page.reload()
    page.wait_for_selector(DONE)
    again = answer_of(page)
    assert again["measures"] == last["measures"]
    assert page.input_value(f'[data-key="{key}"] input[type=text]') == field


def test_bad_values_are_refused_with_the_line_of_the_schema(page):
    before = answer_of(page)
    typed(page, "workload.rate", "-5")
    page.wait_for_selector('.kvsweep[data-state="refused"]')
    told = page.inner_text(".alert")
    assert told == f"{SWEEP}: --set workload.rate: must be more than 0, got -5"
    assert answer_of(page)["measures"] == before["measures"]
    typed(page, "workload.rate", "<b>fast</b>")
    page.wait_for_selector(".alert:has-text('fast')")
    assert page.inner_text(".alert").endswith("expected a number, got '<b>fast</b>'")
    assert page.locator(".alert b").count() == 0
    page.click('[data-key="workload.rate"] .reset')
    page.wait_for_selector(DONE)
    assert page.locator(".alert:visible").count() == 0


def test_two_scenarios_are_compared_by_the_same_seeds(page, tmp_path):
    page.click("text=Compare")
    page.select_option('[data-key="policy"] select', label="least-loaded")
    typed(page, "workload.output.mean", "250")
    page.wait_for_selector(".card.both .big:has-text('\N{MULTIPLICATION SIGN}')")
    page.wait_for_selector(DONE)
    answer = answer_of(page)
    assert [len(measure["curves"]) for measure in answer["measures"]] == [2, 2, 2, 2]
    assert page.locator(".main path.line.b").count() == 1
    a, b = (group["value"] for group in answer["cliff"]["groups"])
    assert answer["cliff"]["ratio"]["value"] == pytest.approx(b / a)


def test_the_lives_of_requests_follow_the_sliders_and_the_last_move_stays(page):
    page.click("summary")
    page.wait_for_selector('.lives[data-state="shown"]')
    first = life_of(page)
    assert first["value"] == pytest.approx(
        0.9 * answer_of(page)["cliff"]["groups"][0]["value"], abs=50
    )
    assert "preempted, waiting" in page.inner_text(".lives .life-key")
    assert page.locator("svg.life path.phase").count() == len(first["present"])
    slider = "document.querySelector('.lives input[type=range]')"
    for place in (1, 18, 3):  # quick moves: sizes about the cliff
        page.evaluate(f"{slider}.value = {place}; {slider}.dispatchEvent(new Event('input'))")
    page.wait_for_selector(f".lives .told:has-text('{SIZES[3]:,} blocks')")
    before = life_of(page)
    typed(page, "workload.requests", "20")
    page.wait_for_selector(".lives .told:has-text('20 requests,')")
    cell = ["policy=round-robin", "workload.requests=20", f"cache.gpu_blocks={SIZES[3]}", "seed=0"]
    assert life_of(page)["told"] == heading(timeline_of(run_replay(SWEEP, cell)))[1]
    assert before["told"] != life_of(page)["told"]
    typed(page, "workload.requests", "2001")
    page.wait_for_selector('.lives[data-state="refused"]')
    assert "the lives of at most 2,000 are drawn here" in page.inner_text(".lives .told")
    page.wait_for_selector(DONE)
    page.reload()  # the address has kept it
    page.wait_for_selector('.lives[open][data-state="refused"]')


def test_files_of_what_is_shown_are_saved(page, tmp_path):
    typed(page, "workload.rate", "1500")
    page.wait_for_selector(DONE)
    found = {}
    for label in ("SVG", "PNG", "Save as TOML"):
        with page.expect_download() as waiting:
            page.click(f"text={label}")
        file = tmp_path / waiting.value.suggested_filename
        waiting.value.save_as(file)
        found[file.suffix] = file
    assert found[".svg"].read_bytes().startswith(b"<?xml")
    assert found[".png"].read_bytes().startswith(base64.b64decode("iVBORw0KGgo="))
    assert load_sweep(found[".toml"]).scenario({}).workload.rate == 1500
    page.click("text=Copy the command")
    text = page.inner_text("dialog[open] pre")
    assert "--set workload.rate=1500 --seeds " in text
    page.click("dialog >> text=Close")


def test_closing_the_page_ends_its_work(chromium, server):
    page = chromium.new_page()
    page.goto(server.url)
    page.wait_for_selector(DONE, timeout=MS)
    before = set(server.workers)
    assert before
    typed(page, "workload.requests", "200000")  # minutes of simulations
    page.wait_for_selector('.status.busy:has-text("simulating")', timeout=MS)
    page.close()
    assert all(worker.join(LONG) for worker in before)
    assert not server.workers & before


def test_another_token_and_another_site_get_nothing(chromium, server):
    page = chromium.new_page()
    page.goto(server.url.replace("token=", "token=x"))
    assert "refused" in page.inner_text("body")
    # Another site opens a socket here, with the right token.
    code = """url => new Promise(done => {
        const socket = new WebSocket(url);
        socket.onopen = () => done("opened");
        socket.onerror = () => done("refused");
    })"""
    page.goto("data:text/html,another site")
    url = f"ws://127.0.0.1:{server.port}/socket?token={server.token}"
    assert page.evaluate(code, url) == "refused"
    page.close()


def test_powers_of_two_are_as_far_apart_as_their_ratios_and_the_cliff_is_on_its_curve(chromium):
    sizes = [512 * 2**n for n in range(5)]
    with served(OfSweep(load_sweep(SWEEP, [f"cache.gpu_blocks={sizes}"], 4))) as running:
        page = chromium.new_page(viewport={"width": 1300, "height": 900})
        page.goto(running.url)
        page.wait_for_selector(DONE)
        found = page.evaluate(
            """() => {
                const chart = document.querySelector(".main svg.chart");
                const named = [...chart.querySelectorAll("text.tick:not(.faint)")];
                const below = named.filter((text) => text.getAttribute("text-anchor") === "middle");
                const line = chart.querySelector("path.line");
                const cliff = chart.querySelector(".cliff");
                const [x, y] = ["cx", "cy"].map((name) => +cliff.getAttribute(name));
                const points = [...Array(2001).keys()].map(
                    (n) => line.getPointAtLength((n / 2000) * line.getTotalLength()));
                const ways = points.map((point) => Math.hypot(point.x - x, point.y - y));
                return { off: Math.min(...ways), texts: below.map((text) => text.textContent),
                    places: below.map((text) => +text.getAttribute("x")) };
            }"""
        )
        page.close()
    assert found["texts"] == [f"{size:,}" for size in sizes]
    assert np.ptp(np.diff(found["places"])[:-1]) < 1
    assert found["off"] < 2


def test_a_slider_tells_its_value_not_its_place(page):
    row = page.locator('[data-key="cluster.instances"]')
    slider = row.locator('input[type="range"]')
    assert slider.get_attribute("aria-valuetext") == "4"
    requests = page.locator('[data-key="workload.requests"] input[type="range"]')
    assert requests.get_attribute("aria-valuetext") == "200 requests"
    assert page.inner_text('[data-key="workload.requests"] .unit') == "requests"
    typed(page, "workload.requests", "1")
    assert requests.get_attribute("aria-valuetext") == "1 request"
    page.click("summary")
    page.wait_for_selector('.lives[data-state="shown"]')
    life = page.locator('.life-bar input[type="range"]')
    assert "blocks" in life.get_attribute("aria-valuetext")


def test_arrow_keys_tell_the_values_of_a_chart(page):
    chart = page.locator(".main .plot")
    chart.focus()
    told = page.locator(".main .readout .where")
    where = []
    for key in ("ArrowRight", "ArrowRight", "End", "ArrowLeft", "Home"):
        chart.press(key)
        where.append(told.inner_text().split(" ")[0])
    assert where == [f"{SIZES[place]:,}" for place in (0, 1, -1, -2, 0)]
    chart.press("Escape")
    assert page.locator(".main .readout").is_hidden()


def test_an_interval_that_there_is_not_is_not_drawn(chromium, tmp_path):
    sweep = load_sweep(SWEEP, [*GIVEN, "policy=round-robin"], 1)
    store = kvsweep.run(sweep, out=tmp_path / "one.zarr")
    with served(OfStore(store, "one.zarr")) as running:
        page = chromium.new_page(viewport={"width": 1300, "height": 900})
        page.goto(running.url)
        page.wait_for_selector(DONE)
        seeds, spreads = answer_of(page)["seeds"], page.locator(".spread").count()
        cliffs = page.locator(".cliff").count()
        page.close()
    assert (seeds, cliffs, spreads) == (1, 1, 0)


def test_numbers_of_a_narrow_axis_differ(chromium):
    patterns = (rf"function {name}\b.*?\n}}" for name in ("number", "apart"))
    found = [re.search(pattern, script(), re.DOTALL) for pattern in patterns]
    page = chromium.new_page()  # of no server, whose page runs no other script
    told = page.evaluate(
        f"""(lists) => {{
            {"".join(each[0] for each in found)}
            return lists.map(apart);
        }}""",
        [[10_000.1, 10_000.2, 10_000.3], [-5000, -4997.5, -4995], [0, 0.25, 0.5], [7]],
    )
    page.close()
    assert told[0] == ["10,000.1", "10,000.2", "10,000.3"]
    assert told[1] == ["\N{MINUS SIGN}5,000.0", "\N{MINUS SIGN}4,997.5", "\N{MINUS SIGN}4,995.0"]
    assert told[2:] == [["0", "0.25", "0.5"], ["7"]]


def test_the_close_up_of_a_cliff_over_decades_is_a_share_of_them(chromium):
    rates = [0.1, 1.0, 10.0, 100.0, 1000.0, 10_000.0]
    given = [f"grid.workload.rate={rates}", "cache.gpu_blocks=1500", "cliff.along=rate"]
    with served(OfSweep(load_sweep(SWEEP, given, 4))) as running:
        page = chromium.new_page(viewport={"width": 1300, "height": 900})
        page.goto(running.url)
        page.wait_for_selector(DONE)
        page.click("text=Close-up of the cliff")
        (cliff,) = answer_of(page)["cliff"]["groups"]
        low, high = page.evaluate(
            """() => {
                const texts = document.querySelectorAll(".main .chart .tick");
                const isBelow = (text) => text.getAttribute("text-anchor") === "middle";
                const below = [...texts].filter(isBelow);
                const values = below.map((text) => +text.textContent.replaceAll(",", ""));
                return [Math.min(...values), Math.max(...values)];
            }"""
        )
        page.fill(".limit", "0.99")
        page.press(".limit", "Enter")
        page.wait_for_selector(DONE)
        page.wait_for_function("!document.querySelector('.kvsweep').answer.cliff.groups[0].value")
        is_disabled = page.locator("text=Close-up of the cliff").is_disabled()
        page.close()
    assert cliff["value"] / 10 < low < high < cliff["value"] * 10
    assert is_disabled


def test_a_logarithmic_axis_between_its_values_has_numbers(chromium):
    patterns = (rf"function {name}\b.*?\n}}" for name in ("sweptTicks", "withRoom", "roundNumbers"))
    found = [re.search(pattern, script(), re.DOTALL) for pattern in patterns]
    page = chromium.new_page()
    told = page.evaluate(
        f"""([values, low, high]) => {{
            {"".join(each[0] for each in found)}
            const place = (value) => 100 * Math.log10(value / low);
            return sweptTicks(values, Object.assign(place, {{ low, high }}), 50);
        }}""",
        [[0.0005, 5, 1e6], 0.04, 8],
    )
    page.close()
    assert told == [0.1, 1]


def test_an_interval_that_reaches_zero_does_not_make_a_chart_over_decades_linear(chromium):
    """With the first few seeds one often does, and with more none: the chart changed its scale."""
    found = re.search(r"function extent\b.*?\n}", script(), re.DOTALL)
    page = chromium.new_page()
    told = page.evaluate(
        f"""(lists) => {{
            {found[0]}
            return lists.map(([values, wanted, means]) => extent(values, wanted, means));
        }}""",
        [
            [[40, 22_000, -30, 23_000], [], [40, 22_000]],
            [[40, 22_000, 20, 23_000], [], [40, 22_000]],
            [[40, 22_000, -30, 23_000], [0], [40, 22_000]],
            [[0, 22_000], [], [0, 22_000]],
        ],
    )
    page.close()
    assert [each["isLogarithmic"] for each in told] == [True, True, False, False]
    assert told[0]["low"] == pytest.approx(4 / 1.2)
    assert told[1]["low"] == pytest.approx(20 / 1.2)
