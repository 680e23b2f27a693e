"""Dockerfiles, which are read, and files of other kinds, which say what to give instead."""

import pytest

from kvsweep.errors import InputError
from kvsweep.vllm_command.dockerfile import is_dockerfile, read_dockerfile
from kvsweep.vllm_command.kinds import command_of
from kvsweep.vllm_command.to_sweep import Question, answer

BASE = "FROM vllm/vllm-openai:v0.33.0\n"


@pytest.mark.parametrize(
    "text",
    [
        f'{BASE}CMD ["m", "-tp", "2"]',
        '# syntax=docker/dockerfile:1\nARG T=v1\nFROM vllm/vllm-openai:$T\ncmd ["m", "-tp", "2"]',
        f'{BASE}ENTRYPOINT ["vllm", "serve"]\nCMD ["m", "-tp", "2"]',
        f'{BASE}ENTRYPOINT vllm serve m -tp 2\nCMD ["ignored"]',
        'FROM x\nENTRYPOINT ["/opt/entrypoint.sh"]\nCMD ["vllm", "serve", "m", "-tp", "2"]',
        "FROM x\nENV TP=2\nCMD exec vllm serve m \\\n  # how many\n  -tp $TP \\\n\n",
        'FROM x\nARG N=2\nENV TP=${N} M="m"\nCMD vllm serve $M -tp ${TP:-4}',
        "FROM x\nENV TP 2\nENV A=1\nCMD vllm serve m -tp $TP",
        'FROM x\nCMD ["python3", "-m", "vllm.entrypoints.openai.api_server", "--model=m", "-tp=2"]',
        f'{BASE[:-1]} AS Base\nCMD ["n"]\nFROM base\nCMD ["m", "-tp", "2"]',
        f'FROM golang AS a\nCMD ["go"]\n{BASE}COPY --from=a /x /x\nCMD ["m", "-tp", "2"]',
        f'{BASE}HEALTHCHECK CMD curl x\nCMD ["n"]\nRUN <<EOF\nCMD ["no"]\nEOF\nCMD ["m","-tp","2"]',
        "FROM x\nCMD uv run vllm serve m -tp 2",
    ],
)
def test_the_last_stage_says_what_an_image_starts(text):
    assert is_dockerfile(text)
    found = command_of(text, "Dockerfile")
    assert found.model == "m"
    assert {option.name: value for option, value in found.values.items()} == {
        "--tensor-parallel-size": "2"
    }
    assert found.where == "Dockerfile: CMD"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BASE, "no model is named"),
        ("FROM x\nRUN pip install vllm", "no CMD or ENTRYPOINT: give the command it is run with"),
        ('FROM x\nCMD ["/start.sh"]', "starts /start.sh, which is not vLLM: give that script, or"),
        ('FROM x\nCMD ["python", "app.py"]', "starts app.py, which is not vLLM: give that script"),
        ('FROM x\nCMD ["nginx"]', "starts nginx, which is not vLLM: give the command of vLLM, or"),
        ("FROM x\nCMD ['vllm', 'serve']", "CMD: ['vllm', 'serve']: expected a list of texts, as"),
        ("FROM x\nCMD vllm serve $MODEL", "$MODEL: a variable of the shell: put in its value"),
        (f'{BASE}CMD ["m", "--max-num-sqs", "3"]', "did you mean '--max-num-seqs'?"),
        (f"{BASE}# {'x' * 200_000}", "a Dockerfile has at most 131,072"),
    ],
)
def test_what_an_image_does_not_tell_is_said(text, message, tmp_path):
    (tmp_path / "Dockerfile").write_text(text)
    with pytest.raises(InputError) as told:
        answer(Question((str(tmp_path / "Dockerfile"),), gpu="h100"))
    assert message in str(told.value)
    assert "\n" not in str(told.value)


def test_what_names_itself_does_not_grow_without_end():
    text = "FROM x\nENV A=12345678\n" + "ENV A=$A$A\n" * 60 + "CMD vllm serve m"
    assert read_dockerfile(text, "f").model == "m"
    with pytest.raises(InputError, match="a script has at most 131,072"):
        read_dockerfile(f"{text} --seed $A", "f")


REMEDY = "give the command that it makes, or --log of the server's start"
TERRAFORM = 'resource "kubernetes_pod" "a" {\n  image = "vllm/vllm-openai:v1"\n  args = ["m"]\n}\n'


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("app.py", "import modal\n\ncmd = ['vllm', 'serve', 'm']\n", "a Modal app is Python"),
        ("a.py", "# mine\nimport bentoml\n", "a BentoML service is Python, which is not read"),
        ("a.py", 'import os\nos.system("vllm serve m")\n', f"Python, which is not read: {REMEDY}"),
        ("serve", "#!/usr/bin/env python3\nx = 1\n", f"Python, which is not read: {REMEDY}"),
        ("app", '"""Serve."""\nfrom ray import serve\n', "a Ray application is Python"),
        ("a.ipynb", '{"cells": [], "nbformat": 4}', f"a notebook is not read: {REMEDY}"),
        ("main.tf", TERRAFORM, "Terraform, or another file of HCL, is not read"),
        ("vllm.nomad", 'job "llm" {\n  image = "x"\n}\n', "Terraform, or another file of HCL"),
        ("Chart.yaml", "apiVersion: v2\nname: vllm\n", "has a chart's name only: give its values"),
    ],
)
def test_files_that_are_not_read_say_what_to_give(name, text, message, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message) as told:
        answer(Question((str(tmp_path / name),), gpu="h100"))
    assert str(told.value).startswith(f"{tmp_path / name}: ")


def test_a_whole_script_in_a_file_of_hcl_is_read():
    text = 'resource "aws_instance" "a" {\n  user_data = <<E\n#!/bin/sh\nvllm serve m\nE\n}\n'
    assert command_of(text, "main.tf").text == "vllm serve m"
    with pytest.raises(InputError, match="--prot: no option"):
        command_of(text.replace("serve m", "serve m --prot 1"), "main.tf")


def test_a_folder_is_none_of_its_files(tmp_path):
    with pytest.raises(InputError, match=r"a folder: give the file that .* as values.yaml"):
        answer(Question((str(tmp_path),), gpu="h100"))


def test_a_function_of_the_shell_is_no_terraform():
    with pytest.raises(InputError, match="no command that starts vLLM"):
        command_of("terraform_apply() {\n  terraform apply\n}\n", "a.sh")


def test_a_script_with_python_in_it_is_a_script():
    text = "set -e\npython - <<E\nimport modal\nE\nvllm serve m\n"
    assert command_of(text, "run.sh").text == "vllm serve m"


def test_an_entry_point_takes_away_the_command_of_the_image_before():
    """As docker builds it: a command of the same stage stays."""
    before = 'FROM x AS a\nCMD ["Qwen/Qwen3-8B", "-tp", "2"]\nFROM a\n'
    entry = 'ENTRYPOINT ["vllm", "serve", "m"]\n'
    assert command_of(before + entry, "Dockerfile").text == "vllm serve m"
    own = f'{before}CMD ["-pp", "2"]\n{entry}'
    assert command_of(own, "Dockerfile").text == "vllm serve m -pp 2"


@pytest.mark.parametrize(
    "text",
    [
        'FROM --platform=linux/amd64 vllm/vllm-openai:v0.33.0\nCMD ["m", "-tp", "2"]',
        'FROM --platform=$BUILDPLATFORM  vllm/vllm-openai AS x\nFROM x\nCMD ["m", "-tp", "2"]',
        'ARG A=1 T=v1 B\nFROM vllm/vllm-openai:$T\nCMD ["m", "-tp", "2"]',
        'FROM x\nARG N=2 M="m"\nENV TP=$N MODEL=$M\nCMD vllm serve $MODEL -tp $TP',
    ],
)
def test_flags_of_from_and_several_arguments_are_read(text):
    """The flag was taken for the image, and what follows an argument for its value."""
    assert read_dockerfile(text, "Dockerfile").text == "vllm serve m -tp 2"
