"""The page in a notebook: the same messages, by the widget's own way."""

import queue
import sys

import pytest
from exploring import LONG, MEASURES
from sweeping import BASE, CLIFF, GRID, make_sweep

import kvsweep
from kvsweep.explorer import notebook, pages

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
    monkeypatch.setattr(made, "send", made.told.put)
    yield made
    made.close()


def received(widget, content):
    """Let the widget have a message as the notebook delivers it."""
    widget._handle_custom_msg(content, [])


def test_a_widget_answers_what_its_page_asks(widget):
    received(widget, {"kind": "open"})
    worker = widget._worker
    assert widget.told.get(timeout=LONG)["kind"] == "hello"
    received(widget, SHOW)
    answers = [widget.told.get(timeout=LONG)]
    while not answers[-1].get("done"):
        answers.append(widget.told.get(timeout=LONG))
    assert answers[-1]["axis"]["name"] == "gpu_blocks"
    received(widget, {"kind": "close"})
    assert worker.join(LONG)


@pytest.mark.parametrize("message", [{"kind": "eval"}, {"kind": "show"}, [], "x", None])
def test_what_is_no_request_is_refused(widget, message):
    received(widget, {"kind": "open"})
    widget.told.get(timeout=LONG)
    received(widget, message)
    assert widget.told.get(timeout=LONG)["text"].startswith("page: ")


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
