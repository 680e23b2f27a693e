"""Variables of a script that are put in, and those that only the shell knows."""

import json

import pytest
import yaml

from kvsweep.errors import InputError
from kvsweep.vllm_command.kinds import command_of
from kvsweep.vllm_command.manifests import read_manifest
from kvsweep.vllm_command.script_defaults import with_defaults
from kvsweep.vllm_command.set_once import set_once, tables_set_once
from kvsweep.vllm_command.values import Values
from kvsweep.vllm_command.words import read_command


@pytest.mark.parametrize(
    ("script", "values"),
    [
        ("MODEL=a/b\nvllm serve $MODEL", {"MODEL": "a/b"}),
        ("MODEL=a; TP=2\nvllm serve $MODEL", {"MODEL": "a", "TP": "2"}),
        ("MODEL=a && TP=2 && vllm serve $MODEL", {"MODEL": "a", "TP": "2"}),
        ("source venv/bin/activate\nMODEL=a", {"MODEL": "a"}),
        ('eval "$(conda shell.bash hook)"\nMODEL=a', {"MODEL": "a"}),
        ('B=/m\nMODEL=$B/x\nN="${B}/y z"', {"B": "/m", "MODEL": "/m/x", "N": "/m/y z"}),
        ("export MODEL='a b'", {"MODEL": "a b"}),
        ("declare -r TP=2", {"TP": "2"}),
        ("TP=2\nvllm serve m --tp=$TP", {"TP": "2"}),
        ("tp=2\nvllm serve m --tp=$tp", {"tp": "2"}),
        ("MODEL=a\r\nTP=2\r\n", {"MODEL": "a", "TP": "2"}),
    ],
)
def test_what_a_script_sets_once_at_its_beginning_is_known(script, values):
    assert set_once(script) == values


@pytest.mark.parametrize(
    "script",
    [
        "test -f x && MODEL=a\nvllm serve $MODEL",
        "test -f x &&\nMODEL=a\nvllm serve $MODEL",
        "test -f x ||\\\nMODEL=a\nvllm serve $MODEL",
        "MODEL=a vllm serve $MODEL",
        "MODEL=a \\\nvllm serve $MODEL",
        "if true; then\nMODEL=a\nfi",
        "MODEL=a\n[ $1 ] && MODEL=b",
        "source .env\nMODEL=a",
        "MODEL=a\n. ./env.sh",
        'ssh h "\nMODEL=a\nvllm serve $MODEL\n"',
        "MODEL=${1:-a}",
        "MODEL=$(cat x)",
        "MODEL=~/x",
        "CMD='vllm serve m'",
        "MODEL=a\ndocker run -e MODEL=$MODEL x",
        "A=1 B=2\n",
        "f() {\nMODEL=a\n}",
        "(\nMODEL=a\n)",
        "cat <<EOF > x\nMODEL=a\nEOF",
        "MODEL=a|cat",
        "MODEL=a &",
        "MODEL=a\nread MODEL",
        "for MODEL in a; do\n",
        "MODEL=a\nfor MODEL in b c; do",
        "MODEL+=a",
        "MODEL=",
        'MODEL=""',
    ],
)
def test_what_may_have_another_value_is_not_known(script):
    assert set_once(script) == {}


SCRIPT = """#!/bin/bash
# don't ask: $MODEL
set -e
export HF_HOME=/data/hf
MODEL="Qwen/Qwen3-8B"
TP=2
EXTRA_ARGS="--max-num-seqs 64 --enable-prefix-caching"
source venv/bin/activate
exec vllm serve "$MODEL" \\
  --tensor-parallel-size ${TP:-1} $EXTRA_ARGS \\
  --served-model-name '$MODEL' > $LOG 2>&1
"""


def test_a_script_with_variables_is_read_as_the_shell_runs_it():
    found = read_command([SCRIPT])
    assert found.model == "Qwen/Qwen3-8B"
    values = {option.name: value for option, value in found.values.items()}
    assert values["--tensor-parallel-size"] == "2"
    assert values["--max-num-seqs"] == "64"
    assert values["--enable-prefix-caching"] is True
    assert values["--served-model-name"] == ["$MODEL"]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("set -e", "if [ $1 ]; then MODEL=$1; fi", "$MODEL: a variable of the shell"),
        ('MODEL="Qwen', 'MODEL="$BASE', "$MODEL: a variable of the shell"),
        ("source venv/bin/activate", "source settings.sh", "$MODEL: a variable of the shell"),
    ],
)
def test_what_only_the_shell_knows_is_still_asked_for(old, new, told):
    assert old in SCRIPT
    with pytest.raises(InputError) as refused:
        read_command([SCRIPT.replace(old, new)])
    assert told in str(refused.value)


def test_an_image_that_a_variable_names_is_found():
    script = (
        "IMAGE=vllm/vllm-openai:v0.33.0\ndocker run --gpus all $IMAGE --model Qwen/Qwen3-8B -tp 2"
    )
    found = read_command([script])
    assert (found.model, str(found.release)) == (
        "Qwen/Qwen3-8B",
        str(
            read_command(
                ["docker run --gpus all vllm/vllm-openai:v0.33.0 --model Qwen/Qwen3-8B"]
            ).release
        ),
    )


def test_a_script_of_a_manifest_may_set_what_the_manifest_does_not():
    script = "TP=4\nvllm serve m -tp $TP"
    pod = {"containers": [{"name": "c", "command": ["bash", "-c", script]}]}
    text = yaml.safe_dump({"kind": "Pod", "metadata": {"name": "p"}, "spec": pod})
    assert read_manifest(text, "f.yaml").text == "vllm serve m -tp 4"


@pytest.mark.parametrize(
    ("script", "values"),
    [
        ("vllm serve $M -tp 2\nM=x", {}),
        ("vllm serve ${M} -tp 2; M=x\nM=x", {}),
        ("vllm serve ${M:-y} \\\n -tp 2\nM=x", {}),
        ('bash -c "\nvllm serve $M"\nM=x', {}),
        ("N=$M/a\nM=x", {}),
        ("N=$M; M=x; P=2", {"P": "2"}),
        ("M=x\nvllm serve $M -tp $N\nN=2", {"M": "x"}),
        ("echo $MODEL\nM=x\nvllm serve $M", {"M": "x"}),
    ],
)
def test_what_is_set_behind_its_first_use_is_not_known(script, values):
    assert set_once(script) == values


def test_a_command_is_not_given_what_is_set_behind_it():
    with pytest.raises(InputError, match=r"\$M: a variable of the shell"):
        read_command(["vllm serve $M -tp 2\nM=x"])
    assert read_command(["M=x\nvllm serve $M -tp 2"]).model == "x"


@pytest.mark.parametrize(
    ("script", "read"),
    [
        ("vllm serve ${M:-a/b}", "vllm serve a/b"),
        ("vllm serve ${M-a/b} -tp ${TP:-2} # or ${N:-3}", "vllm serve a/b -tp 2"),
        ('M="${M:-a/b}"\nvllm serve $M', "vllm serve a/b"),
        ("M=${M:-a}\nvllm serve ${M:-b}", "vllm serve a"),
        ("vllm serve a ${EXTRA:-}", "vllm serve a"),
        ("M=a\nvllm serve ${M:-b}", "vllm serve a"),
    ],
)
def test_defaults_of_what_a_script_does_not_set_are_taken_and_told(script, read):
    found = command_of(script, "a.sh")
    assert found.text == read
    names = with_defaults(script)[1]
    told = f"not set in the script, so that their defaults are taken: {', '.join(names)}"
    assert found.notes == ((told,) if names else ())
    assert ("N" in names) is False


@pytest.mark.parametrize(
    "script",
    [
        "vllm serve ${1:-a}",
        "vllm serve ${M:-$(cat x)}",
        "source .env\nvllm serve ${M:-a}",
        "read M\nvllm serve ${M:-a}",
        "if [ $1 ]; then M=b; fi\nvllm serve ${M:-a}",
        "if [ $1 ]; then M=b; fi\nM=${M:-a}\nvllm serve $M",
        ": ${M:=b}\nvllm serve ${M:-a}",
        "vllm serve ${SLURM_JOB_NAME:-a}",
        "envs:\n  M: b\nrun: |\n  vllm serve ${M:-a}",
        "vllm serve $M",
    ],
)
def test_defaults_of_what_may_be_set_are_not_taken(script):
    assert with_defaults(script) == (script, ())
    with pytest.raises(InputError, match="a variable of the shell: put in its value"):
        command_of(script, "a.sh")


def test_defaults_of_a_manifest_s_script_are_asked_for():
    """Its variables may come from elsewhere, as of a Secret."""
    pod = {"containers": [{"name": "c", "command": ["bash", "-c", "vllm serve ${M:-a}"]}]}
    text = yaml.safe_dump({"kind": "Pod", "metadata": {"name": "p"}, "spec": pod})
    with pytest.raises(InputError, match="a variable of the shell"):
        command_of(text, "f.yaml")


def test_comments_of_a_script_with_defaults_are_read_as_without():
    """Lines of Slurm say how many servers there are."""
    begin = "#!/bin/bash\n#SBATCH -N 2 # don't\n#SBATCH --ntasks-per-node=1\n"
    told, plain = (
        command_of(f"{begin}srun vllm serve {model}", "a.sh") for model in ("${M:-a}", "a")
    )
    assert told.text == plain.text
    assert len(plain.notes) == 1
    assert told.notes[:1] == plain.notes
    assert with_defaults("vllm serve ${M:-a} # ${N:-b}") == ("vllm serve a # ${N:-b}", ("M",))


TABLE = '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'
SHORT = TABLE.replace(" ", "")
ESCAPED = TABLE.replace('"', '\\"')
LINES = TABLE.replace(", ", ",\n ")


@pytest.mark.parametrize(
    ("script", "table"),
    [
        (f"KT='{TABLE}'\nvllm serve m --kv-transfer-config \"$KT\"", TABLE),
        (f"KT='{TABLE}'; vllm serve m --kv-transfer-config \"${{KT}}\" -tp 2", TABLE),
        (f'export KT="{ESCAPED}"\nvllm serve m --kv-transfer-config "$KT"', TABLE),
        (f"KT='{SHORT}'\nvllm serve m --kv-transfer-config $KT", SHORT),
        (f"KT='{SHORT}'\nvllm serve m --kv-transfer-config=${{KT}}", SHORT),
        (f"KT='{TABLE}'\nvllm serve m \"--kv-transfer-config=$KT\"", TABLE),
        ("C=NixlConnector\n" + f'KT="{ESCAPED.replace("NixlConnector", "$C")}"\n'
         'vllm serve m --kv-transfer-config "$KT"', TABLE),
        (f"KT='{LINES}'\nvllm serve m --kv-transfer-config \"$KT\"", LINES),
        (f"KT='{TABLE}'\nsh -c \"vllm serve m --kv-transfer-config '$KT'\"", TABLE),
    ],
)  # fmt: skip
def test_a_variable_may_hold_a_table_of_json(script, table):
    found = {option.name: value for option, value in read_command([script]).values.items()}
    assert (
        found["--kv-transfer-config"] == table
        or json.loads(table) == (found["--kv-transfer-config"])
    )


@pytest.mark.parametrize(
    "script",
    [
        f"KT='{TABLE}'\nvllm serve m --kv-transfer-config $KT",  # the shell takes it apart
        f"KT='{TABLE}'\nKT='{{}}'\nvllm serve m --kv-transfer-config \"$KT\"",
        f"if true; then\nKT='{TABLE}'\nfi\nvllm serve m --kv-transfer-config \"$KT\"",
        f"source env.sh\nKT='{TABLE}'\nvllm serve m --kv-transfer-config \"$KT\"",
        'KT="{\\"kv_connector\\": \\"$1\\"}"\nvllm serve m --kv-transfer-config "$KT"',
        'KT=\'{"a": $(date)}\'\nvllm serve m --kv-transfer-config "$KT"',
        f"vllm serve m --kv-transfer-config \"$KT\"\nKT='{TABLE}'",
    ],
)
def test_a_table_that_may_be_another_one_is_asked_for(script):
    with pytest.raises(InputError, match=r"--kv-transfer-config: \$\S*: a variable of the shell"):
        Values(read_command([script])).table("kv-transfer-config")


def test_single_quotes_take_no_tables():
    script = f"KT='{TABLE}'\nvllm serve m --served-model-name '$KT' --seed 1"
    found = {option.name: value for option, value in read_command([script]).values.items()}
    assert found["--served-model-name"] == ["$KT"]
    assert set_once(script) == {}
    assert tables_set_once(script) == {"KT": TABLE}


@pytest.mark.parametrize(
    ("words", "read"),
    [
        ("\"'$M'\"", "'v'"),
        ('"it\'s $M" --seed 1 --chat-template "it\'s"', "it's v"),
        ("'say \"$M\"'", 'say "$M"'),
        ('"\\$M"', "$M"),
        ('"a \\"$M\\" b"', 'a "v" b'),
    ],
)
def test_quotes_are_those_of_the_shell(words, read):
    """Single quotes in double ones are letters, and so was what stood between two of them."""
    found = read_command([f"M=v\nvllm serve m --served-model-name {words}"])
    assert {option.name: value for option, value in found.values.items()}[
        "--served-model-name"
    ] == [read]


@pytest.mark.parametrize(
    ("script", "read"),
    [
        ("TP=4\nbash -c \"vllm serve m -tp '$TP'\"", "vllm serve m -tp 4"),
        ('bash -c "TP=4; vllm serve m -tp \\$TP"', "vllm serve m -tp 4"),
        ('bash -c "vllm serve m -tp \\$TP"', None),
        ("bash -c \"vllm serve m -tp '$TP'\"", None),
        ('vllm serve "it\'s" -tp $TP --chat-template "it\'s"', None),
    ],
)
def test_variables_in_quotes_of_both_kinds_are_put_in_or_asked_for(script, read):
    """They were taken as they are written."""
    if read is not None:
        assert read_command([script]).text == read
    else:
        with pytest.raises(
            InputError, match=r"-tp: .*a variable of the shell|-size: .*a variable of"
        ):
            Values(read_command([script])).whole("tensor-parallel-size")
