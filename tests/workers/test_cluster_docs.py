"""The examples of docs/clusters.md: what can be run is run, with a small sweep."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from sweeping import BASE, GRID, make_sweep, write_sweep

import kvsweep
from kvsweep.cli import commands

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "clusters.md").read_text()


def blocks(language):
    found = re.findall(rf"^ *```{language}\n(.*?)^ *```", TEXT, re.MULTILINE | re.DOTALL)
    assert found
    return found


def block_with(word):
    (found,) = (block for block in blocks("python") if word in block)
    return found


def keywords(code, function):
    """Return the arguments of the only call of a function."""
    calls = (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call))
    (call,) = (call for call in calls if getattr(call.func, "id", "") == function)
    return {each.arg: ast.literal_eval(each.value) for each in call.keywords}


def test_commands_and_options_shown_exist():
    known = {option for p in commands.commands["grid"].params for option in p.opts}
    shown = re.findall(r"kvsweep grid ([^`\n|]*)", TEXT)
    assert len(shown) > 4
    assert {option for line in shown for option in re.findall(r"--[a-z-]+", line)} <= known
    assert CliRunner().invoke(commands, ["grid", "--help"]).exit_code == 0


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_example_of_one_machine_runs(tmp_path):
    (tmp_path / "sweeps").mkdir()
    write_sweep(tmp_path / "sweeps", BASE + GRID, "h8.toml")
    (tmp_path / "example.py").write_text(block_with("LocalCluster"))
    path = str(Path(kvsweep.__file__).parents[1])
    run = subprocess.run(
        [sys.executable, "example.py"],
        cwd=tmp_path,
        env={"PATH": "", "HOME": str(Path.home()), "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    sweep = make_sweep(tmp_path, BASE + GRID)
    whole = kvsweep.run(sweep, out=tmp_path / "whole.zarr")
    found = kvsweep.open_results(tmp_path / "results" / "h8.zarr")
    assert found.equals(whole)


@pytest.mark.slow
def test_the_job_script_of_slurm_is_the_one_shown():
    jobqueue = pytest.importorskip("dask_jobqueue")
    options = keywords(block_with("SLURMCluster"), "SLURMCluster")
    with jobqueue.SLURMCluster(
        **{**options, "interface": "lo", "scheduler_options": {"dashboard_address": "127.0.0.1:0"}}
    ) as cluster:
        script = cluster.job_script()
    (shown,) = re.findall(r"^```\n(#SBATCH -J.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    script = re.sub(r"\S*/python", ".../python", script.removeprefix("#!/usr/bin/env bash"))
    script = re.sub(r"tcp://\S*", "tcp://...:...", script).replace(" --interface lo", "")
    assert script.strip() == shown.strip()


def test_the_specification_of_kubernetes_is_made():
    pytest.importorskip("dask_kubernetes")
    made = {}
    exec(block_with("make_cluster_spec").partition("if __name__")[0], made)
    worker = made["spec"]["spec"]["worker"]["spec"]["containers"][0]
    assert worker["args"][0] == "dask-worker"
    assert worker["args"][-2:] == ["--nthreads", "4"]
    assert worker["env"] == [{"name": "KVSWEEP_CACHE_DIR", "value": "/tmp/kvsweep"}]
