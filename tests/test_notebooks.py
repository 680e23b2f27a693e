"""The notebooks show what they draw; `.ci/run` executes them and looks at what came out."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from analysis.synthetic import h8
from sweeping import BASE, GRID, stand_in

import kvsweep
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


def interrupt_after(cells):
    def progress(done, total):
        if done >= cells:
            raise KeyboardInterrupt

    return progress


def test_figures_of_fewer_cells_do_not_replace_those_of_a_note(tmp_path, monkeypatch):
    pytest.importorskip("IPython")
    import study

    stand_in(monkeypatch)
    monkeypatch.setattr(study, "ROOT", tmp_path)
    (tmp_path / "sweeps").mkdir()
    sweep = tmp_path / "sweeps" / "mine.toml"
    sweep.write_text(BASE + GRID)
    assert study.Study("mine").figures != tmp_path / "docs" / "findings"
    out = tmp_path / "results" / "mine.zarr"
    for seeds, whole in ((3, False), (None, True)):
        kvsweep.run(kvsweep.load_sweep(sweep, seeds=seeds), out=out, overwrite=True)
        assert study.Study("mine").complete is whole
    assert study.Study("mine").figures == tmp_path / "docs" / "findings"
    shutil.rmtree(out)
    with pytest.raises(KeyboardInterrupt):
        kvsweep.run(kvsweep.load_sweep(sweep), out=out, progress=interrupt_after(3))
    assert not study.Study("mine").complete
