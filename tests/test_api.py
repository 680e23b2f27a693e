"""The public Python API: each name listed once, typed, and with an example that runs."""

import doctest
import importlib
import inspect
import re
import tomllib
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from analysis.synthetic import prefix_trials

import kvsweep
import kvsweep.plot
from kvsweep.arguments import ANY, ARGUMENTS, NUMBER, WHOLE, checked
from kvsweep.errors import InputError
from kvsweep.store import save_dataset
from kvsweep.trace_replay import REQUEST_COLUMNS

DOCUMENT = (Path(__file__).parents[1] / "docs" / "api.md").read_text()
PUBLIC = {f"kvsweep.{name}": getattr(kvsweep, name) for name in kvsweep.__all__} | {
    f"kvsweep.plot.{name}": getattr(kvsweep.plot, name) for name in kvsweep.plot.__all__
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with what the examples find: a sweep and its store, and a measurement."""
    folder = tmp_path_factory.mktemp("examples")
    sweep = folder / "small.toml"
    sweep.write_text(re.search(r"```toml\n(.*?)```", DOCUMENT, re.DOTALL)[1])
    kvsweep.run(kvsweep.load_sweep(sweep), out=folder / "results" / "small.zarr")
    save_dataset(folder / "prefix.zarr", prefix_trials())
    return folder


def examples_of(name):
    return doctest.DocTestFinder(recurse=False).find(PUBLIC[name], name, globs={})


@pytest.mark.parametrize("name", PUBLIC)
def test_the_example_of_a_public_name_runs(name, folder, monkeypatch):
    monkeypatch.chdir(folder)
    (found,) = examples_of(name)
    assert found.examples
    told = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(found, out=told.append)
    assert runner.failures == 0, "".join(told)


def test_every_public_name_is_listed_once():
    assert sorted(re.findall(r"^\| `([\w.]+)` \|", DOCUMENT, re.MULTILINE)) == sorted(PUBLIC)


@pytest.mark.parametrize("name", [name for name in PUBLIC if inspect.isfunction(PUBLIC[name])])
def test_the_docstring_of_a_function_describes_every_parameter(name):
    text = inspect.getdoc(PUBLIC[name])
    described = re.search(r"Parameters\n-+\n(.*?)(\n\n\w+\n-+\n|\Z)", text, re.DOTALL)[1]
    heads = re.findall(r"^(\S.*?)(?: :.*)?$", described, re.MULTILINE)
    assert [n for head in heads for n in head.split(", ")] == [
        *inspect.signature(PUBLIC[name]).parameters
    ]


def test_every_annotation_is_there():
    for function in filter(inspect.isfunction, PUBLIC.values()):
        signature = inspect.signature(function)
        kinds = [parameter.annotation for parameter in signature.parameters.values()]
        assert inspect.Signature.empty not in [*kinds, signature.return_annotation], function


FUNCTIONS = {name: f for name, f in PUBLIC.items() if inspect.isfunction(f)}
ODD = [
    None,
    5,
    0.5,
    True,
    "text",
    b"bytes",
    [],
    [5],
    {"a": 1},
    ("a", 1),
    object(),
    float,
    10**400,
    "a\0b",
]


def test_every_argument_of_a_public_function_has_a_kind():
    named = {name for f in FUNCTIONS.values() for name in inspect.signature(f).parameters}
    assert named == ARGUMENTS.keys()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_argument_of_another_kind_is_refused_by_its_name(name):
    """In one line, before anything else is looked at: files, datasets, other arguments."""
    for argument, parameter in inspect.signature(FUNCTIONS[name]).parameters.items():
        kind = ARGUMENTS[argument]
        wrong = [v for v in ODD if not kind.fits(v) and v is not parameter.default]
        assert wrong or kind is ANY
        for value in wrong:
            with pytest.raises(InputError) as caught:
                FUNCTIONS[name](**{argument: value})
            assert str(caught.value).startswith(f"{argument}: expected {kind.words}, got ")


@pytest.mark.parametrize("number", [np.int64(2), np.uint8(2), np.float32(0.5), np.float64(2)])
def test_numbers_of_numpy_reach_every_function_as_those_of_python(number):
    names = [name for name, kind in ARGUMENTS.items() if kind in (WHOLE, NUMBER)]
    for name in names:
        if ARGUMENTS[name].fits(number):
            function = checked(_with_argument(name))
            for got in (function(number), function(**{name: number})):
                assert (type(got), got) == (type(number.item()), number)


def _with_argument(name):
    """Return a function of one argument, which returns it."""
    return eval(f"lambda {name}: {name}")


def test_a_sweep_is_loaded_with_as_many_seeds_as_numpy_counts(folder):
    sweep = kvsweep.load_sweep(folder / "small.toml", seeds=np.int64(2))
    assert [len(axis.values) for axis in sweep.axes if axis.key == "seed"] == [2]


def test_the_package_says_that_it_is_typed():
    """An empty `py.typed`, which the wheel has with all else in the package."""
    assert files("kvsweep").joinpath("py.typed").is_file()
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["kvsweep"]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, "None"),
        (True, "True"),
        ({"a": 1}, "a dict"),
        ("a", "'a'"),
        (["a", 1], "a list of int, str"),
        ((1,), "a tuple of int"),
    ],
)
def test_a_refused_argument_is_told_in_the_words_of_python(value, told):
    words = "a list of strings, as ['cache.gpu_blocks=[1000, 2000]']"
    with pytest.raises(InputError) as caught:
        kvsweep.load_sweep("small.toml", value)
    assert str(caught.value) == f"overrides: expected {words}, got {told}"


def test_every_result_is_told_and_a_cliff_is_not_shown_with_all_points_of_its_curves(folder):
    ds = kvsweep.open_results(folder / "results" / "small.zarr").sel(rate=200.0)
    at = ds.isel(gpu_blocks=2)
    cliff = kvsweep.find_cliff(ds)
    found = [
        cliff,
        kvsweep.pareto_front(at),
        kvsweep.factorial_effects(at, "ttft_p99_ms"),
        kvsweep.compare(ds.sel(policy="base"), ds.sel(policy="both"), "ttft_p99_ms"),
        ds,
    ]
    begins = [
        "base: preemption_rate passes",
        "",
        "Effects on ttft_p99_ms",
        "ttft_p99_ms (ms): B minus A",
    ]
    for result, begin in zip(found, [*begins, "Routing and order"], strict=True):
        text = kvsweep.text_of(result)
        assert text.startswith(begin)
        assert text.count("\n") > 5
    assert "array" not in repr(cliff.groups)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"wait": 5}, "wait: needs scheduler or scheduler_file"),
        ({"scheduler": "tcp://a:1", "processes": True}, "with workers or processes=True"),
        ({"shard": "1/2", "overwrite": True}, "^shard: cannot be used with overwrite=True, by"),
        ({"prune": False}, r"\(prune=False runs every cell\); overwrite=True starts again, out na"),
        ({"keep_requests": True}, "made without keep_requests=True; overwrite=True starts again"),
    ],
)
def test_messages_name_arguments_to_python_and_options_to_commands(folder, options, message):
    sweep = kvsweep.load_sweep(folder / "small.toml")
    with pytest.raises(kvsweep.InputError, match=message) as told:
        kvsweep.run(sweep, out=folder / "results" / "small.zarr", **options)
    assert "--" not in str(told.value)
    assert "--" in told.value.for_command


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["cache.block_sise=8"], "small.toml: overrides: cache.block_sise: unknown key; did you"),
        (
            ["workload.requests=[5]"],
            "several are an axis: overrides=['grid.workload.requests=[5]']",
        ),
        (["cluster.routing=x", "cluster.routing=y"], "overrides: cluster.routing: given twice"),
    ],
)
def test_messages_name_overrides_to_python(folder, overrides, message):
    with pytest.raises(kvsweep.InputError) as told:
        kvsweep.load_sweep(folder / "small.toml", overrides)
    assert message in str(told.value)
    assert "--set" in told.value.for_command


def test_what_is_none_of_dasks_is_refused_though_no_worker_is_needed(folder):
    sweep = kvsweep.load_sweep(folder / "small.toml")
    for name, value in (("client", "tcp://a:1"), ("client", 3), ("scheduler", ["tcp://a:1"])):
        with pytest.raises(kvsweep.InputError, match=f"^{name}: expected a"):
            kvsweep.run(sweep, out=folder / "results" / "small.zarr", **{name: value})


def test_a_dataset_is_no_trace(folder):
    """A dataset is a mapping, and is told by its kind rather than by its tables."""
    ds = kvsweep.open_results(folder / "results" / "small.zarr")
    for function in (kvsweep.replay, kvsweep.plot.plot_timeline, kvsweep.plot.timeline_page):
        with pytest.raises(kvsweep.InputError) as told:
            function(ds)
        assert str(told.value) == "source: expected a path or a dict, got a Dataset"


def test_a_current_folder_that_was_deleted_is_told(folder, monkeypatch):
    """It was a FileNotFoundError of no file, as in a notebook whose folder was moved away."""
    sweep = kvsweep.load_sweep(folder / "small.toml")
    gone = folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    store = folder / "results" / "small.zarr"
    for call in (lambda: kvsweep.run(sweep), lambda: kvsweep.verify(store)):
        with pytest.raises(kvsweep.InputError, match=r"^the current folder was deleted: change to"):
            call()
    assert kvsweep.open_results(store)["steps"].min() > 0


PACKAGE = Path(kvsweep.__file__).parent
WITH_EXAMPLES = [
    ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts)
    for file in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in file.read_text()
]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_of_a_module_run(name):
    module = importlib.import_module(name.removesuffix(".__init__"))
    public = {each.__qualname__ for each in PUBLIC.values() if each.__module__ == name}
    told = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for found in doctest.DocTestFinder().find(module):
        if found.name.removeprefix(f"{name}.") not in public:  # these find files, as above
            runner.run(found, out=told.append)
    assert runner.failures == 0, "".join(told)


def test_the_columns_of_a_replay_are_told_by_its_docstring():
    """It named a constant that is not public."""
    told = inspect.getdoc(kvsweep.replay).partition("Returns")[2].partition("Raises")[0]
    named = set(re.findall(r"``(\w+)``", told))
    assert named - {"request", "status_detail"} == set(REQUEST_COLUMNS)


def test_a_replay_counts_the_requests_that_are_left_out(tmp_path):
    """The command told it; in Python half of a log looked like all of it."""
    rows = "".join(f"{i},32,{4 if i % 2 else ''}\n" for i in range(10))
    (tmp_path / "t.csv").write_text(f"arrival_s,prompt_tokens,output_tokens\n{rows}")
    model = ["latency.model=llama-3.1-8b/h100/tp2"]
    ds = kvsweep.replay(tmp_path / "t.csv", model, ["failed=leave-out"])
    assert (ds.sizes["request"], ds.attrs["left_out"]) == (5, 5)


def test_a_trace_has_arrays_and_numbers_of_numpy_and_tuples():
    """They were refused one by one: an integer expected, got np.int64(0)."""
    plain = {
        "format": "kvsweep-trace/1",
        "scenario": {"latency": {"beta": [7000, 17.7, 2.8]}},
        "requests": [
            {"id": i, "arrival_us": i, "prompt": [[1, 40]], "output": [2, 3]} for i in range(2)
        ],
    }
    numbers = np.arange(2)
    made = {
        **plain,
        "scenario": {"latency": {"beta": np.array([7000, 17.7, 2.8])}},
        "requests": tuple(
            {"id": i, "arrival_us": i, "prompt": np.array([[1, 40]]), "output": (2, np.int32(3))}
            for i in numbers
        ),
    }
    assert kvsweep.replay(made).identical(kvsweep.replay(plain))
    assert isinstance(made["requests"][0]["prompt"], np.ndarray)


def test_numbers_as_numpy_shows_them_are_no_toml(folder):
    """They were told that a shell may have taken their quotes away."""
    sizes = np.arange(1000, 1200, 100)
    for text in (str(list(sizes)), str(sizes)):
        with pytest.raises(kvsweep.InputError) as told:
            kvsweep.load_sweep(folder / "small.toml", [f"cache.gpu_blocks={text}"])
        assert "is not TOML; numbers are listed as in [8, 16], as .tolist() of" in str(told.value)


def test_a_replayed_cell_counts_the_requests_that_its_trace_is_left_without(tmp_path):
    """0 was told, as if the list were all of the file."""
    rows = "".join(f"{i},5,{i % 3}\n" for i in range(9))  # three of them failed
    for name in ("0.csv", "1.csv"):
        (tmp_path / name).write_text(f"arrival_s,prompt_tokens,output_tokens\n{rows}")
        rows += "9,5,0\n"
    (tmp_path / "s.toml").write_text(
        "[workload]\ntrace = '{seed}.csv'\nread.failed = 'leave-out'\n"
        "[latency]\nbeta = [7000, 17.7, 2.8]\n[grid]\nseed = { count = 2 }\n"
    )
    for seed in (0, 1):
        ds = kvsweep.replay(tmp_path / "s.toml", [f"seed={seed}", "cache.gpu_blocks=20"])
        assert (ds.sizes["request"], ds.attrs["left_out"]) == (6, 3 + seed)
