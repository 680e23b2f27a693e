"""The notebooks show what they draw; `.ci/run` executes them and looks at what came out."""

import json
import sys
from pathlib import Path

import pytest
from analysis.synthetic import h8

from kvsweep import plot

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "notebooks")]

from notebook_figures import drawing_cells, main  # noqa: E402

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_cell_that_draws_ends_with_what_is_shown(notebook):
    cells = list(drawing_cells(notebook))
    assert cells
    for _, cell in cells:
        last = "".join(cell["source"]).strip().splitlines()[-1]
        assert "save(" in last or last.startswith("plot.plot_")


def test_a_saved_figure_is_shown_as_an_image(tmp_path, monkeypatch):
    pytest.importorskip("IPython")
    from study import Study

    study = Study("h8")
    monkeypatch.setattr(study, "figures", tmp_path)
    shown = study.save(plot.plot_curve(h8(2), "preemption_rate", "gpu_blocks"), "curve")
    data, looks = shown._repr_mimebundle_()
    assert "image/png" in data
    assert looks["image/png"]["width"] == 336
    assert (tmp_path / "h8-curve.png").exists()


@pytest.mark.parametrize(("outputs", "code"), [([], 1), ([{"data": {"image/png": "x"}}], 0)])
def test_a_figure_that_is_not_shown_is_told(tmp_path, capsys, outputs, code):
    cells = [
        {"cell_type": "markdown", "source": ["new_figure("]},
        {"cell_type": "code", "source": ["x = 1"], "outputs": []},
        {"cell_type": "code", "source": ["style.new_figure()"], "outputs": outputs},
    ]
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells}))
    assert main(tmp_path) == code
    assert ("cell 2 makes a figure and shows none" in capsys.readouterr().out) == bool(code)


def test_a_figure_is_shown_by_itself():
    data, looks = plot.plot_curve(h8(2), "preemption_rate", "gpu_blocks")._repr_png_()
    assert data.startswith(b"\x89PNG")
    assert looks["width"] == 336
