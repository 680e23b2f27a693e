"""Commands of vLLM, word by word: spellings, values, scripts and configuration files."""

import re
from collections import Counter
from pathlib import Path

import pytest

from kvsweep.errors import InputError
from kvsweep.vllm_command.options import find_option, options
from kvsweep.vllm_command.replicas import told_of_scaling
from kvsweep.vllm_command.values import Values
from kvsweep.vllm_command.words import read_command

IDLE = ("--port", "--seed", "--host", "--served-model-name")


def read(text):
    """Return the model and the options of a command."""
    found = read_command([text])
    return found.model, {option.name: value for option, value in found.values.items()}


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve m --max-num-seqs 64 --no-enable-prefix-caching -tp 2",
        "vllm serve m --max_num_seqs=64 --disable-prefix-caching --tensor_parallel-size=2",
        "vllm serve -tp 2 --no-enable_prefix_caching --max-num-seqs 64 --model m",
        "vllm serve -tp=2 m --no-enable-prefix-c --max-num-seq 64",
        "/opt/bin/vllm serve m --max-num-seqs 64 -tp 2 --no-enable-prefix-caching > log 2>&1 &",
        "A=1 exec vllm serve m --max-num-seqs 1 --max-num-seqs 64 -tp 2 --disable-prefix-caching",
        "vllm serve 'm' \\\n  --max-num-seqs 64 \\\n  -tp 2 --no-enable-prefix-caching # mine",
        "#!/bin/sh\nsleep 3\nvllm serve m --max-num-seqs 64 -tp 2 --disable-prefix-caching\n",
        "python3 -m vllm.entrypoints.openai.api_server --model=m --max-num-seqs 64 -tp 2 "
        "--no-enable-prefix-caching",
        "# it's \\\nvllm serve m --max-num-seqs 64 -tp 2 --disable-prefix-caching 2>&1 | tee x",
        "vllm serve m --max-num-seqs 64 -tp 2 --disable-prefix-caching >> log 2>&1; wait",
        "ExecStart=/usr/bin/vllm serve m --max-num-seqs 64 -tp 2 --disable-prefix-caching &> log",
        "sh -c 'vllm serve m --max-num-seqs 64 -tp 2 --disable-prefix-caching'",
        "(vllm serve m --port $(cat|head) --seed $((RANDOM&1)) --host ${H:-a;b} "
        "--max-num-seqs 64 -tp 2 --served-model-name `a|b` --disable-prefix-caching)",
        "command vllm serve m --max-num-seqs 64 -tp 2 --disable-prefix-caching",
        "echo vllm serve x\nvllm serve m --max-num-seqs 64 -tp 2 --disable-prefix-caching",
        "docker pull vllm/vllm-openai:v1\ndocker run --name vllm-openai --entrypoint vllm "
        "vllm/vllm-openai:v1 serve m --max-num-seqs 64 -tp 2 --disable-prefix-caching",
        "docker run --gpus all -p 80:80 --env HF_TOKEN=x vllm/vllm-openai:v0.33.0 --model m "
        "--max-num-seqs 64 -tp 2 --no-enable-prefix-caching",
    ],
)
def test_the_same_command_in_many_ways(text):
    model, found = read(text)
    expected = {
        "--max-num-seqs": "64",
        "--enable-prefix-caching": False,
        "--tensor-parallel-size": "2",
    }
    assert model == "m"
    assert {name: found[name] for name in found if name not in IDLE} == expected


def numbers(values):
    """Return what is said of two options."""
    return values.whole("max-num-seqs"), values.number("watermark")


def test_options_take_what_the_parser_of_vllm_gives_them():
    model, found = read(
        "vllm serve --served-model-name a b --port 80 --hf-token --lora-modules x=1 y=2 "
        "--enforce-eager -O3 --seed -1 m"
    )
    assert model is None or model == "m"
    assert found["--served-model-name"] == ["a", "b"]
    assert found["--hf-token"] is None
    assert found["--lora-modules"] == ["x=1", "y=2"]
    assert found["--optimization-level"] == "3"
    assert found["--seed"] == "-1"
    assert model == "m"


def test_dots_are_parts_of_a_table():
    _, found = read(
        "vllm serve m --speculative-config.method eagle "
        "--speculative_config.num_speculative_tokens 3 -cc.cudagraph_capture_sizes+ 1,2 "
        "-cc.pass_config.fuse=true"
    )
    assert found["--speculative-config"] == {"method": "eagle", "num_speculative_tokens": 3}
    assert found["--compilation-config"] == {
        "cudagraph_capture_sizes": ["1", "2"],
        "pass_config": {"fuse": True},
    }


def test_a_list_takes_the_place_of_a_part_that_is_none():
    _, found = read("vllm serve m -cc.sizes 1 -cc.sizes+ 2,3 -cc.sizes+ 4")
    assert found["--compilation-config"] == {"sizes": ["2", "3", "4"]}


def test_quotations_go_on_over_lines():
    text = 'vllm serve m --speculative-config \'{\n  "method": "eagle"\n}\' -tp 2\n'
    assert read(text)[1]["--tensor-parallel-size"] == "2"


def test_a_configuration_file_comes_before_the_command(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text(
        "model: a\ntensor-parallel-size: 4\nmax_num_seqs: 8\nno-enable-prefix-caching: true\n"
        "served-model-name: [x, y]\nspeculative-config:\n  method: eagle\nport: null\n"
    )
    model, found = read(f"vllm serve --config {path} -tp 2")
    assert model == "a"
    assert found["--tensor-parallel-size"] == "2"
    assert found["--max-num-seqs"] == "8"
    assert found["--enable-prefix-caching"] is False
    assert found["--served-model-name"] == ["x", "y"]
    assert found["--speculative-config"] == '{"method": "eagle"}'
    assert read(f"vllm serve b --config {path}")[0] == "b"
    for text, message in (
        ("- 3\n", "expected options and their values, got a list"),
        ("a: [\n", "no YAML: "),
        ("max-num-sqs: 3\n", "did you mean '--max-num-seqs'?"),
    ):
        path.write_text(text)
        with pytest.raises(InputError) as told:
            read(f"vllm serve b --config {path}")
        assert message in str(told.value)
        assert str(path) in str(told.value)


def test_variables_of_the_shell_matter_where_something_follows_from_them():
    text = "vllm serve m --port $PORT --api-key ${KEY} --served-model-name 'a$b' --seed `date`"
    found = read_command([text])
    assert "--port '$PORT'" in found.text
    assert found.values[find_option("--served-model-name", "")[0]] == ["a$b"]
    assert read_command(["vllm", "serve", "a$b"]).model == "a$b"  # the shell was there before


def test_what_a_terminal_obeys_is_not_shown():
    found = read_command(["vllm", "serve", "m", "--served-model-name", "a\x1b[31m\n[engine]\udcff"])
    assert found.text.isprintable()


def test_a_long_script_takes_no_time():
    quoted = "cat <<E\nit's\nE\n" + "echo 'a' \"b\" c\n" * 5_000
    assert read(f"{quoted}vllm serve m -tp 2\n")[0] == "m"
    with pytest.raises(InputError, match=r"starts 6,?000 servers"):
        read("".join(f'S{i}="vllm serve m"\n' for i in range(6_000)))


def test_what_is_secret_is_not_shown():
    text = "vllm serve m --api-key s3cret more --hf-token=s3cret --port 8000"
    found = read_command([f"{text} --watermark-config s3cret"])
    assert "s3cret" not in found.text
    assert "more" not in found.text
    assert "--port 8000" in found.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vllm bench serve m", "no command that starts vLLM: expected `vllm serve MODEL ...`"),
        ("", "no command that starts vLLM"),
        ("vllm serve a\nvllm serve b", "starts 2 servers; give the command of one"),
        ("vllm serve $MODEL", "$MODEL: a variable of the shell: put in its value"),
        ("vllm serve 'm", "'m: no closing quotation"),
        ("vllm serve a b", "'b': a second model; vLLM serves one"),
        ("vllm serve m --max-num 3", "--max-num: begins --max-num-active-seqs, --max-num-batched"),
        ("vllm serve m --swap-space 4", "--swap-space: no option of vLLM 0.33.0"),
        ("vllm serve m --max-num-seqs", "--max-num-seqs: its value is missing"),
        ("vllm serve m --max-num-seqs -tp 2", "--max-num-seqs: its value is missing"),
        ("vllm serve m --enforce-eager=1", "--enforce-eager: takes no value, got '1'"),
        ("vllm serve m --enforce-eager.x 1", "--enforce-eager.x: --enforce-eager has no parts"),
        ("vllm serve m --config", "--config: its value is missing"),
        ("vllm serve m --config=c.yaml", "vLLM reads one configuration file, as --config FILE"),
        ("vllm serve m --config a.yaml --config b.yaml", "vLLM reads one configuration file"),
        ("vllm serve a --model b", "--model b: a second model, beside a; vLLM serves one"),
        ("vllm serve a & vllm serve b &", "starts 2 servers"),
        ("vllm serve a && vllm serve b", "starts 2 servers"),
        (
            "  command: >\n    vllm serve a\n    -tp 4\n",
            "-tp: begins a line, and the one",
        ),
        ("image: vllm/vllm-openai:v0.33.0\nargs: [m]", "a part of a manifest: give the whole"),
        ('vllm serve "$@"', "$@: a variable of the shell"),
        ('vllm serve "$@" --model m', "$@: a variable of the shell"),
        ("vllm serve m $EXTRA", "$EXTRA: a variable of the shell"),
        ("vllm serve m --served-model-name x $EXTRA", "$EXTRA: a variable of the shell"),
        ("vllm serve m --max-num-seqs $(a -b | wc)", "--max-num-seqs: $(...): a variable of the"),
        ("vllm serve m --max-num-seqs $N", "--max-num-seqs: $N: a variable of the shell"),
        ("vllm serve m --max-num-seqs " + "9" * 5000, "expected a whole number, got '999"),
        ("vllm serve m --watermark inf", "--watermark: expected a number, got 'inf'"),
        ("x" * 200_000, "200,000 characters; a script has at most 131,072"),
        ("vllm serve m --speculative-config 3 --speculative-config.x 1", "as a whole and in parts"),
    ],
)
def test_what_cannot_be_taken_is_told_in_one_line(text, message):
    with pytest.raises(InputError) as told:
        numbers(Values(read_command([text])))
    assert message in str(told.value)
    assert "\n" not in str(told.value)


def test_every_option_has_a_form_and_a_role():
    """A switch has no other form; what is refused says why, and takes its own default."""
    assert len(options()) > 300
    for name, option in options().items():
        assert option.form in ("switch", "value", "list", "optional"), name
        assert find_option(name, "x") == (option, True)
        assert (option.role == "refused") == bool(option.why), name


def test_the_page_counts_the_options_of_each_role():
    page = (Path(__file__).parents[2] / "docs" / "from-vllm.md").read_text(encoding="utf-8")
    counts = Counter(option.role for option in options().values())
    told = re.findall(r"^\| [a-z ,]+ \| (\d+) \|", page, re.MULTILINE)
    roles = ("key", "times", "memory", "refused", "none")
    assert [int(number) for number in told] == [counts[role] for role in roles]
    assert f"All {len(options())} options" in page


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('S="vllm serve m"\nS="$S -tp 2"\n$S', "S: has a part of the command only"),
        ("S='vllm serve m'\nS+=' -tp 2'\neval $S", "S: has a part of the command only"),
        ('S="vllm serve m"\n$S -tp 2', "S: has a part of the command only"),
        ('S="vllm serve m"\nif [ $A ]; then\nS="$S $A"\nfi\n$S', "S: has a part of the command"),
        ('S=(vllm serve m)\nX=1\nS+=(-tp 2)\n"${S[@]}"', "S: has a part of the command only"),
        ('S=(vllm serve m)\n"${S[@]}" -tp 2', "S: has a part of the command only"),
        ('S="vllm serve m"\nS="export A=1; $S -tp 2"\n$S', "S: has a part of the command only"),
        ('S="vllm serve m"\necho "$S -tp 2" | sh', "S: has a part of the command only"),
        ('S="vllm serve m"\necho "$S -tp 2" > a.sh', "S: has a part of the command only"),
        ("S := vllm serve m\nS += -tp 2\nrun:\n\t$(S)", "S: has a part of the command only"),
        ('s = "vllm serve m"\ns += " -tp 2"', "s: has a part of the command only"),
        ('s = (\n  "vllm serve m "\n  "-tp 2"\n)', "-tp 2: begins a line, and the one before"),
        ('os.system("vllm serve m " \\\n  "-tp 2")', "-tp 2: is not in the text that has"),
        ("sh -c 'vllm serve m' --max-num-seqs=3", "--max-num-seqs=3: is not in the text that"),
        ("repository: vllm/vllm-openai\nmodelURL: m", "an image that nothing runs"),
        ("FROM vllm/vllm-openai:v1\nENV A=1", "vllm/vllm-openai:v1: an image that nothing runs"),
        ("docker build -t vllm/vllm-openai .", "an image that nothing runs"),
        ("python -m vllm.entrypoints.api_server --model m", "has defaults of its own: expected"),
    ],
)
def test_a_part_of_a_command_is_not_taken_for_the_whole(text, message):
    with pytest.raises(InputError) as told:
        read(text)
    assert message in str(told.value)


@pytest.mark.parametrize(
    "text",
    [
        'S="vllm serve m -tp 2"\necho "Running $S"\neval $S > log 2>&1 &',
        'S="vllm serve m -tp 2"; echo $S; $S',
        'S="vllm serve m -tp 2"\necho "Running $S $(date)"\nprintf "%s\\n" "$S" "$LOG"\n$S',
        'S="$S_ENV vllm serve m -tp 2"\n$S',
        'S=(vllm serve m -tp 2)\nexec "${S[@]}"',
        'S=(\n  vllm serve m # mine\n  -tp 2\n)\nexec "${S[@]}"',
        "command = vllm serve m -tp 2\n[program:b]\ncommand = python b.py",
        "bash -c 'python3 -m vllm.entrypoints.openai.api_server --model m -tp 2'",
        "docker run --entrypoint '' vllm/vllm-openai vllm serve m -tp 2",
        "docker run --entrypoint python3 vllm/vllm-openai:v1 -m "
        "vllm.entrypoints.openai.api_server --model m -tp 2",
        "srun --container-image vllm/vllm-openai:v1 --container-mounts /a vllm serve m -tp 2",
        "sbatch --wrap='vllm serve m -tp 2' --gres=gpu:2 --time 1:00",
        "docker images vllm/vllm-openai\npodman run vllm/vllm-openai m -tp 2",
    ],
)
def test_a_command_in_one_piece_is_read_wherever_it_stands(text):
    assert read(text) == ("m", {"--tensor-parallel-size": "2"})


@pytest.mark.parametrize(
    "text",
    [
        "VLLM_A=1 vllm serve m",
        "export B=2 VLLM_A=1\nvllm serve m",
        "docker run -e VLLM_A=1 vllm/vllm-openai m",
        "docker run --env=VLLM_A=1 vllm/vllm-openai m",
        '[Service]\nEnvironment="B=2" "VLLM_A=1"\nExecStart=/usr/bin/vllm serve m',
        'command=vllm serve m\nenvironment=B="2",VLLM_A="1"',
        "export VLLM_A=1\nvllm serve m &\nVLLM_PID=$!",
        "vllm serve m --headless &\nVLLM_A=1 vllm serve m &\nVLLM_PID=$!",
    ],
)
def test_variables_of_vllm_are_found_wherever_they_are_set(text):
    assert [name for name in read_command([text]).variables if name[:5] == "VLLM_"] == ["VLLM_A"]


@pytest.mark.parametrize(
    "line",
    [
        'echo "Starting vllm serve m -tp 4 ..."',
        "echo vllm serve m -tp 4",
        'if ! pgrep -f "vllm serve m" > /dev/null; then sleep 1; fi',
        'sudo pkill -f "vllm serve m" || true',
        'ExecStop=/usr/bin/pkill -f "vllm serve m"',
        "ps aux | grep -v 'vllm serve m -tp 4'",
        "vllm serve m --headless -tp 4 --data-parallel-start-rank 8",
    ],
)
def test_a_command_that_is_only_named_is_none(line):
    expected = ("m", {"--tensor-parallel-size": "2"})
    assert read(f"{line}\nvllm serve m -tp 2") == read(f"vllm serve m -tp 2\n{line}") == expected


@pytest.mark.parametrize(
    "text",
    [
        "uv run vllm serve m -tp 2",
        "uv run --with vllm --python 3.12 -- vllm serve m -tp 2",
        "python -m vllm.entrypoints.cli.main serve m -tp 2",
        "sh -c 'python3 -m vllm.entrypoints.cli.main serve m -tp 2'",
        "srun --gres=gpu:2 --ntasks 1 vllm serve m -tp 2",
        "#!/bin/bash\n#SBATCH --gres=gpu:2\n#SBATCH -N 1\nmodule load cuda\nsource a/bin/activate\n"
        "srun --export=ALL vllm serve m -tp 2 &\nwait",
        "#SBATCH -J llm\nsrun apptainer exec --nv --bind /a:/b vllm.sif \\\n  vllm serve m -tp 2",
    ],
)
def test_a_command_is_found_behind_what_runs_it(text):
    assert read(text) == ("m", {"--tensor-parallel-size": "2"})


@pytest.mark.parametrize(
    "text",
    [
        'echo "vllm serve m -tp 2" > start.sh',
        "echo '#!/bin/sh' > start.sh\necho 'exec vllm serve m -tp 2' >> start.sh\nsh start.sh",
        "echo vllm serve m -tp 2 > start.sh && bash start.sh",
        'echo "CUDA_VISIBLE_DEVICES=0 vllm serve m -tp 2" | bash',
        'echo "vllm serve m -tp 2" | sudo tee /opt/start.sh',
        r"printf '#!/bin/sh\nexec vllm serve m -tp 2\n' > start.sh",
        'echo "vllm serve n" > other.sh\nvllm serve m -tp 2',
    ],
)
def test_what_is_printed_into_a_script_is_run_if_nothing_else_is(text):
    assert read(text) == ("m", {"--tensor-parallel-size": "2"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('echo "vllm serve m -tp 2"', "no command that starts vLLM"),
        ('echo "Starting vllm serve m -tp 2" > log', "no command that starts vLLM"),
        ('echo "vllm serve m" > a.sh\necho "vllm serve n" > b.sh', "starts 2 servers"),
        ("echo" + " a" * 60_000, "no command that starts vLLM"),
        ("vllm serve m --tp 2", "--tp: no option of vLLM 0.33.0; did you mean '-tp', --tensor-p"),
        ("vllm serve m --m 2", "--max-log-len and 36 more"),
    ],
)
def test_what_is_printed_or_misspelled_is_said(text, message):
    with pytest.raises(InputError) as told:
        read(text)
    assert message in str(told.value)


SERVED_BY_MODULE = "python -m vllm.entrypoints.openai.api_server"


@pytest.mark.parametrize(
    ("start", "line", "remedy"),
    [
        ("vllm serve", "enable-prefix-caching: false", ", or write no-enable-prefix-caching: true"),
        ("vllm serve", "async_scheduling: false", ", or write no-async-scheduling: true"),
        ("vllm serve", "no-async-scheduling: false", ""),
        (SERVED_BY_MODULE, "enable_prefix_caching: false", ", or write no-enable-prefix-caching"),
    ],
)
def test_a_switch_that_vllm_leaves_out_of_its_file_is_not_taken_to_be_off(
    start, line, remedy, tmp_path
):
    """vLLM 0.33.0 looks for ``--no-KEY``: `vllm serve` in a parser without any options."""
    path = tmp_path / "c.yaml"
    path.write_text(f"model: m\n{line}\n")
    with pytest.raises(InputError) as told:
        read(f"{start} --config {path}")
    assert f"default holds: leave it out{remedy}" in str(told.value)


def test_switches_of_a_file_that_vllm_takes(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("model: m\nenable_lora: false\nenable_prefix_caching: true\n")
    assert read(f"vllm serve --config {path}")[1] == {"--enable-prefix-caching": True}
    path.write_text("model: m\nenable-prefix-caching: false\n")
    assert read(f"{SERVED_BY_MODULE} --config {path}")[1] == {"--enable-prefix-caching": False}


def test_parts_take_the_place_of_a_whole():
    """vLLM 0.33.0 puts them behind all other options, so that `{"method": "eagle"}` is lost."""
    whole = '--speculative-config \'{"method": "eagle"}\''
    part = "--speculative-config.num_speculative_tokens 3"
    for text in (f"{whole} {part}", f"{part} {whole}"):
        with pytest.raises(InputError, match=r"whole and in parts, .* one of the ways"):
            read(f"vllm serve m {text}")
    _, found = read("vllm serve m -cc.mode 3 --compilation-config '{\"sizes\": [1]}'")
    assert found["--compilation-config"] == {"mode": 3}


def test_parts_are_put_together_as_vllm_does():
    _, found = read(
        "vllm serve m --kv-transfer-config.extra.bytes 80g --kv-transfer-config.extra "
        '\'{"own": 1, "sizes": [1]}\' --kv-transfer-config.extra.sizes "[2]" '
        "--kv-transfer-config.extra.own 1.5K"
    )
    extra = {"bytes": 80_000_000_000, "own": "1.5K", "sizes": [1, 2]}
    assert found["--kv-transfer-config"] == {"extra": extra}


@pytest.mark.parametrize(
    ("text", "number"),
    [("1_024", 1024), ("+64", 64), (" 64 ", 64), ("64", 64)],
)
def test_whole_numbers_are_those_of_vllm(text, number):
    values = Values(read_command(["vllm", "serve", "m", f"--max-num-seqs={text}"]))
    assert values.whole("max-num-seqs") == number


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("max-num-seqs", "1k"),
        ("block-size", "1K"),
        ("long-prefill-token-threshold", "2k"),
        ("max-model-len", "1.5K"),
        ("max-num-batched-tokens", "2.5K"),
        ("max-num-seqs", "1__0"),
    ],
)
def test_suffixes_are_taken_where_vllm_takes_them(option, text):
    values = Values(read_command(["vllm", "serve", "m", f"--{option}={text}"]))
    with pytest.raises(InputError, match=f"--{option}: expected a whole number"):
        values.whole(option)


def test_a_command_of_a_page_in_markdown_is_read():
    assert read("Start it:\n\n```bash\nvllm serve m -tp 2\n```\n")[0] == "m"
    assert read("  ```\r\n  vllm serve m \\\r\n  -tp 2\r\n  ```\r\n")[0] == "m"


@pytest.mark.parametrize("dash", ["\u2013", "\u2014", "\u2212"])
def test_dashes_of_word_processors_are_told(dash):
    with pytest.raises(InputError, match=f"{dash}tp: begins with '{dash}': an option begins with"):
        read(f"vllm serve m {dash}tp 2")


def test_parts_that_are_nested_too_deeply_are_refused():
    part = f"-cc{'.a' * 3000} 1"
    with pytest.raises(InputError, match="nested too deeply"):
        read(f"vllm serve m {part} {part}")


def test_a_file_may_have_parts_of_an_option(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("model: m\nspeculative-config.method: eagle\n")
    found = read(f"vllm serve --config {path} --speculative-config.num_speculative_tokens 3")[1]
    assert found["--speculative-config"] == {"method": "eagle", "num_speculative_tokens": 3}


@pytest.mark.parametrize("option", ["--kv-transfer-config", "--speculative-config"])
def test_json_that_is_no_object_is_refused(option):
    values = Values(read_command([f"vllm serve m {option} '[1, 2]'"]))
    with pytest.raises(InputError, match=rf"{option}: expected a JSON object, got a list"):
        values.table(option.removeprefix("--"))


@pytest.mark.parametrize("words", ["-O.mode=3", "-O.cudagraph_mode FULL", "-O '{}'", "-Odecode"])
def test_a_level_is_not_the_configuration_of_the_compiler(words):
    """As until vLLM 0.11; vLLM 0.33.0 does not start with it."""
    with pytest.raises(InputError, match=r": vLLM 0.33.0 takes a level, 0 to 3; .* -cc.mode=3$"):
        read_command([f"vllm serve m {words}"])
    assert read_command(["vllm serve m -O 2 -O=$LEVEL -cc.mode=3"]).model == "m"


def test_lines_may_be_joined_as_by_the_shells_of_windows():
    lines = ["docker run --gpus all {0}", "  -p 8000:8000 {0}", "  vllm/vllm-openai:latest {0}"]
    text = "\n".join([*lines, "  --model m {0}", "  --max-num-seqs 8", "echo done", ""])
    for join in ("`", "^", "` \r", "\\"):
        assert read(text.format(join)) == ("m", {"--max-num-seqs": "8"})
    inner = "vllm serve m --max-num-seqs `\ncat seqs\n`"
    with pytest.raises(InputError, match="a variable of the shell: put in its value"):
        read_command([inner])


@pytest.mark.parametrize(
    ("text", "looped"),
    [
        ("for i in 0 1 2; do\n  CUDA_VISIBLE_DEVICES=$i vllm serve m --port 800$i &\ndone", True),
        ("cd /x; for i in 0 1\ndo docker run vllm/vllm-openai --model m\ndone", True),
        ("for f in a b; do mkdir $f; done\nvllm serve m", False),
        ("# for i in 0 1; do\nvllm serve m", False),
        ("while true; do vllm serve m; sleep 1; done", False),
        ("echo wait for it in a minute\nvllm serve m", False),
    ],
)
def test_a_loop_that_starts_servers_is_told(text, looped):
    assert any("a loop starts it" in note for note in read_command([text]).notes) == looped


@pytest.mark.parametrize(
    ("options", "replicas"),
    [
        ("--name llm --replicas 3 \\\n  --generic-resource gpu=1", 3),
        ("--replicas=2", 2),
        ("--name llm", None),
    ],
)
def test_a_service_of_a_swarm_has_as_many_servers_as_replicas(options, replicas):
    """One was simulated, which had the load of all."""
    text = f"docker service create {options} vllm/vllm-openai:v0.33.0 --model Qwen/Qwen3-8B\n"
    assert read_command([text]).replicas == replicas
    assert read_command(text.replace("\\\n", "").split()).replicas == replicas
    other = text.replace("docker service create", "docker run") + "# docker service create"
    assert read_command([other.replace("--replicas", "--label")]).replicas is None


@pytest.mark.parametrize(
    ("before", "replicas"),
    [
        ("docker service create --replicas '3' --name llm IMAGE", 3),
        ('docker service create --replicas="3" IMAGE', 3),
        ("docker service create --replicas 3 --replicas=5 IMAGE", 5),
        ("docker service create -e 'A=x;y' --replicas 3 IMAGE", 3),
        ("docker --context prod service create --replicas 3 IMAGE", 3),
        ("docker service create --replicas 3 --name web nginx\ndocker run IMAGE", None),
        ("kubectl create deployment llm --image=IMAGE --replicas=3 -- vllm serve", 3),
    ],
)
def test_replicas_are_those_of_the_servers_own_command(before, replicas):
    """Quotes and what stands between hid them, and those of another service were taken."""
    text = f"{before.replace('IMAGE', 'vllm/vllm-openai:v0.33.0')} --model Qwen/Qwen3-8B"
    assert read_command([text]).replicas == replicas


@pytest.mark.parametrize("count", ["0", "-1", "$N", "many"])
def test_replicas_that_are_no_number_of_servers_are_refused(count):
    text = f"docker service create --replicas {count} vllm/vllm-openai --model m"
    with pytest.raises(InputError, match=r"--replicas: .*expected a number of servers, 1 or more"):
        read_command([text])


def test_a_service_on_each_node_is_told():
    text = "docker service create --mode global vllm/vllm-openai --model m"
    found = read_command([text])
    assert found.replicas is None
    assert any("--mode global" in note for note in found.notes)


@pytest.mark.parametrize("one_text", [True, False])
def test_what_runs_the_shell_that_starts_a_server_says_something_of_it(one_text):
    """Its image, variables and replicas were lost."""
    image = "vllm/vllm-openai:v0.8.5"
    outer = ["docker", "service", "create", "--replicas=3", "-e", "VLLM_X=1", image, "sh", "-c"]
    inner = "export VLLM_Y=2 && vllm serve m -tp 2"
    words = [*outer, inner]
    found = read_command([" ".join([*outer, f"'{inner}'"])] if one_text else words)
    assert (found.model, found.replicas, found.release.version) == ("m", 3, "0.8.5")
    assert {"VLLM_X", "VLLM_Y"} <= set(found.variables)
    later = inner.replace("export", "pip install vllm==0.11.0 && export")
    assert read_command([*outer, later]).release.version == "0.11.0"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("srun -n 4 --gpus-per-task=1", "", "srun starts it on several tasks"),
        ("/usr/bin/mpirun -np 2", "", "mpirun starts it on several tasks"),
        ("seq 4 | xargs -I{} -P4", "", "xargs starts it, maybe several times"),
        ("srun -n 1 --nodes=1", "", None),
        ("srun --ntasks=2", " --nnodes 2 --node-rank 0", None),
    ],
)
def test_what_starts_a_server_several_times_is_told(before, after, told):
    """One was taken without a word."""
    notes = read_command([f"{before} vllm serve m{after}"]).notes
    assert [note.partition(":")[0] for note in notes] == ([told] if told else [])


def test_a_key_for_replicas_in_what_is_read_as_a_script_is_told():
    """As of SkyPilot's service."""
    text = "service:\n  replicas: 3\nrun: |\n  vllm serve m \\\n    --max-num-seqs 64\n"
    assert any(note.startswith("replicas: 3 is not read") for note in read_command([text]).notes)
    for other in (text.replace("3", "1"), text.replace("  replicas", "# replicas")):
        assert not read_command([other]).notes


def test_a_recipe_of_make_may_be_silent():
    assert read("serve:\n\t@vllm serve m \\\n\t\t--max-num-seqs 64\n")[0] == "m"


@pytest.mark.parametrize("space", ["\u00a0", "\u200b", "\u202f"])
def test_spaces_that_are_no_blanks_are_told(space):
    """The message was of a second model."""
    with pytest.raises(InputError, match="a space that is no blank, U\\+"):
        read_command([f"vllm serve Qwen/Qwen3-8B{space}--max-num-seqs 64"])


@pytest.mark.parametrize("one_text", [True, False])
def test_a_value_that_speaks_of_a_server_starts_none(one_text):
    words = ["vllm", "serve", "m", "--chat-template", "how to vllm serve models", "-tp", "2"]
    text = " ".join(f"'{word}'" if " " in word else word for word in words)
    found = read_command([text] if one_text else words)
    values = {option.name: value for option, value in found.values.items()}
    assert (found.model, values["--tensor-parallel-size"]) == ("m", "2")


UNIT = "[Service]\nEnvironment=VLLM_X=1\n"


@pytest.mark.parametrize(
    "text",
    [
        f"{UNIT}; ExecStart=/usr/bin/vllm serve old\nExecStart=/usr/bin/vllm serve m\n",
        f"{UNIT}ExecStart=/usr/bin/vllm serve old \\\n  --tensor-parallel-size 4\n"
        "[Service]\nExecStart=\nExecStart=/usr/bin/vllm serve m\n",
        f"{UNIT}ExecStart=/usr/bin/vllm serve a\nExecStart=\nExecStart=/usr/bin/vllm serve b\n"
        "ExecStart= \r\nExecStart=/usr/bin/vllm serve m\n",
    ],
)
def test_a_unit_starts_what_no_line_takes_back(text):
    """Lines behind ; and those before an empty ExecStart= were told as further servers."""
    assert read_command([text]).model == "m"


def test_a_case_of_a_shell_ends_as_ever():
    assert read_command(["case $X in\n a) vllm serve m\n ;;\nesac"]).model == "m"


@pytest.mark.parametrize(
    "before",
    [
        "kubectl run llm --image=vllm/vllm-openai:v0.11.0 --port 8000 -- --model",
        "sudo kubectl run llm --image vllm/vllm-openai:v0.11.0 --restart=Never --",
        "oc run llm --image=vllm/vllm-openai:v0.11.0 -- serve",
        "kubectl run llm --image=vllm/vllm-openai:v0.11.0 --command -- vllm serve",
    ],
)
@pytest.mark.parametrize("one_text", [True, False])
def test_a_pod_that_is_run_has_the_words_behind_dashes(before, one_text):
    """No command was found, or options of kubectl were taken for vLLM's."""
    text = f"{before} Qwen/Qwen3-8B --max-num-seqs 8"
    found = read_command([text] if one_text else text.split())
    assert found.text.removeprefix("vllm serve ").removeprefix("--model ") == (
        "Qwen/Qwen3-8B --max-num-seqs 8"
    )
    assert found.release.version == "0.11.0"


def test_pods_of_other_images_start_no_server():
    with pytest.raises(InputError, match="no command that starts vLLM"):
        read_command(["kubectl run llm --image=nginx -- --model Qwen/Qwen3-8B"])


@pytest.mark.parametrize(
    "scaling",
    [
        "docker service scale llm=3",
        "docker --context prod service update --replicas 3 llm",
        "kubectl -n llm scale deployment/llm --replicas=3",
        "sleep 5 && kubectl autoscale deployment llm --min=2 --max=10",
    ],
)
def test_what_changes_the_number_of_servers_later_is_told(scaling):
    """It was passed over, so that one had the load of all."""
    server = "docker service create --name llm vllm/vllm-openai:v0.33.0 --model m\n"
    told = [note for note in read_command([server + scaling]).notes if "is not read" in note]
    assert told == [
        f"{scaling.removeprefix('sleep 5 && ')}: is not read; --set cluster.instances=N has N "
        "servers"
    ]
    assert not read_command([f"{server}# {scaling}"]).notes


@pytest.mark.parametrize("text", ["docker scale ", "docker service update\t", "kubectl x "])
def test_long_lines_are_looked_through_once(text):
    """A line of 100,000 characters of it took minutes."""
    assert told_of_scaling(text * (100_000 // len(text))) is None


@pytest.mark.parametrize(
    "before", ["apptainer run --nv", "srun -N 1 singularity run --nv -B /data"]
)
def test_an_image_of_docker_that_apptainer_runs_is_vllms(before):
    found = read_command([f"{before} docker://vllm/vllm-openai:v0.11.0 --model m -tp 2"])
    assert (found.text, found.model) == ("vllm serve --model m -tp 2", "m")
    assert found.release.version == "0.11.0"


@pytest.mark.parametrize(
    ("before", "several"),
    [
        ("srun -N 2", True),
        ("srun -N2 --gpus-per-node=8", True),
        ("srun --nodes=1 --ntasks-per-node=4", True),
        ("srun -n4", True),
        ("srun --nodes=2-4", True),
        ("srun -N 2 -n 1", False),
        ("srun -N1 --ntasks-per-node=1", False),
        ("srun --gres=gpu:8 --cpus-per-task 16", False),
    ],
)
def test_tasks_of_slurm_are_told_however_they_are_counted(before, several):
    """Nodes, and tasks on each, were passed over."""
    notes = read_command([f"{before} vllm serve m -tp 8"]).notes
    assert any("on several tasks" in note for note in notes) == several
    assert not any("tasks" in note for note in read_command([f"{before} vllm serve m -n 2"]).notes)


@pytest.mark.parametrize(
    ("lines", "srun", "several"),
    [
        ("#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1", "srun", True),
        ("#SBATCH -N 2 # both", "srun", True),
        ("#SBATCH -n 4", "srun -n 1", False),
        ("#SBATCH --nodes=1\n#SBATCH --gres=gpu:8", "srun", False),
        ("#SBATCH --nodes=2", "", False),
    ],
)
def test_tasks_that_lines_of_sbatch_have_are_those_of_srun(lines, srun, several):
    notes = read_command([f"#!/bin/bash\n{lines}\n{srun} vllm serve m -tp 8\n"]).notes
    assert any("on several tasks" in note for note in notes) == several
