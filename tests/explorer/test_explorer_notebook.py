"""The page in a notebook: the same messages, by the widget's own way."""

import queue
import sys

import pytest
from exploring import LONG, MEASURES
from sweeping import BASE, CLIFF, GRID, make_sweep

import kvsweep
from kvsweep.explorer import notebook, pages
from kvsweep.explorer.subject import MAX_PAGES

SHOW = {
    "kind": "show",
    "generation": 1,
    "along": "gpu_blocks",
    "measures": MEASURES,
    "threshold": 0.5,
    "scenarios": [{"workload.rate": 1500}],
}


@pytest.fixture
def sweep(tmp_path):
    return make_sweep(tmp_path, BASE + GRID + CLIFF)


@pytest.fixture
def widget(sweep, monkeypatch):
    pytest.importorskip("anywidget")
    made = kvsweep.explore(sweep)
    made.told = queue.Queue()
    monkeypatch.setattr(made.pages, "_send", made.told.put)
    yield made
    made.close()


def received(widget, content, view="one"):
    """Let the widget have a message as the notebook delivers it."""
    message = {**content, "view": view} if isinstance(content, dict) else content
    widget._handle_custom_msg(message, [])


def test_a_widget_answers_what_its_page_asks(widget):
    received(widget, {"kind": "open"})
    (worker,) = widget.pages.workers.values()
    assert widget.told.get(timeout=LONG)["kind"] == "hello"
    received(widget, SHOW)
    answers = [widget.told.get(timeout=LONG)]
    while not answers[-1].get("done"):
        answers.append(widget.told.get(timeout=LONG))
    assert answers[-1]["axis"]["name"] == "gpu_blocks"
    assert {answer["view"] for answer in answers} == {"one"}
    received(widget, {"kind": "close"})
    assert worker.join(LONG)


def test_a_widget_that_is_shown_twice_answers_each_page_by_itself(widget):
    for view in ("one", "two"):
        received(widget, {"kind": "open"}, view)
        assert widget.told.get(timeout=LONG)["view"] == view
    one, two = widget.pages.workers.values()
    received(widget, {"kind": "close"}, "one")
    assert one.join(LONG)
    received(widget, SHOW, "two")
    assert widget.told.get(timeout=LONG)["view"] == "two"
    widget.close()
    assert two.join(LONG)


def test_pages_that_went_without_a_word_are_let_go(widget):
    received(widget, {"kind": "open"}, "first")
    first = widget.pages.workers["first"]
    for view in range(MAX_PAGES):
        received(widget, {"kind": "open"}, str(view))
    assert first.join(LONG)
    assert len(widget.pages.workers) == MAX_PAGES


@pytest.mark.parametrize("message", [{"kind": "eval"}, {"kind": "show"}, [], "x", None])
def test_what_is_no_request_is_refused(widget, message):
    received(widget, {"kind": "open"})
    widget.told.get(timeout=LONG)
    received(widget, message)
    assert widget.told.get(timeout=LONG)["text"].startswith("page: ")


def test_what_comes_from_no_page_begins_no_work(widget):
    received(widget, {"kind": "open"}, view=5)
    assert widget.told.get(timeout=LONG)["kind"] == "refused"
    assert not widget.pages.workers


def test_the_script_is_that_of_the_page(widget):
    assert widget._esm == pages.script()
    assert "export default { render }" in pages.script()


def test_without_anywidget_the_line_says_what_to_install(sweep, monkeypatch):
    notebook._widget.cache_clear()
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(kvsweep.InputError, match=r"pip install 'kvsweep\[explore\]'"):
        kvsweep.explore(sweep)
    notebook._widget.cache_clear()


def test_only_sweeps_and_results_are_explored():
    with pytest.raises(kvsweep.InputError, match="explored: expected what load_sweep"):
        kvsweep.explore("small.toml")
