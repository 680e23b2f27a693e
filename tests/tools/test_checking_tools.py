"""The tools that check promises: what they are asked for is there, and nobody's folder is lost."""

import subprocess
from types import SimpleNamespace

import build_site
import forecast_check
import interval_coverage
import notebook_figures
import pytest
import search_coverage
from click.testing import CliRunner


@pytest.mark.parametrize("tool", [forecast_check, interval_coverage, search_coverage])
def test_a_name_that_there_is_not_is_told(tool):
    """Nothing was printed, and the exit code was 0."""
    asked = CliRunner().invoke(tool.main, ["--only", "h9"])
    assert asked.exit_code == 2
    assert "h9" in asked.output


@pytest.mark.parametrize("option", ["--studies", "--truth", "--seeds"])
@pytest.mark.parametrize("tool", [interval_coverage, search_coverage])
def test_no_studies_and_no_truth_are_refused(tool, option):
    assert CliRunner().invoke(tool.main, [option, "0"]).exit_code == 2


@pytest.mark.parametrize(("code", "out"), [(-9, "{}"), (1, "")])
def test_a_run_that_died_is_no_forecast(monkeypatch, tmp_path, code, out):
    ended = SimpleNamespace(returncode=code, stdout=out, stderr="")
    monkeypatch.setattr(subprocess, "run", lambda *_, **options: ended)
    asked = CliRunner().invoke(forecast_check.main, ["--only", "h8"])
    assert asked.output.endswith(f"| h8 | ended with {code} | | | |\n")


def test_a_folder_without_notebooks_is_told(tmp_path, capsys):
    assert notebook_figures.main(tmp_path / "nothing") == 1
    assert "has no notebooks" in capsys.readouterr().out


def test_the_site_leaves_what_lies_beside_its_folder(tmp_path, monkeypatch):
    """`<FOLDER>-source` was deleted, whatever it was."""
    mine = tmp_path / "site-source" / "mine"
    mine.parent.mkdir()
    mine.write_text("a")
    monkeypatch.setattr(build_site, "WORK", tmp_path / "build")
    monkeypatch.setattr(build_site, "put_together", lambda source: None)
    monkeypatch.setattr("sys.argv", ["build_site.py", str(tmp_path / "site")])
    monkeypatch.setattr(subprocess, "run", lambda *_, **options: SimpleNamespace(returncode=0))
    build_site.main()
    assert mine.read_text() == "a"
