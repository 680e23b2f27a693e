"""Manifests of Kubernetes, KServe and Docker Compose: which container, which command, how many."""

import json
import re
import textwrap
from itertools import pairwise

import pytest
import yaml

from kvsweep.errors import InputError
from kvsweep.vllm_command.manifests import is_manifest, read_manifest
from kvsweep.vllm_command.to_sweep import Question, answer
from kvsweep.vllm_command.words import read_command

MODEL = "meta-llama/Llama-3.1-8B"
COMMAND = f"vllm serve {MODEL} -tp 2"
IMAGE = "vllm/vllm-openai:v0.33.0"


def workload(*containers, kind="Deployment", name="llama", **spec):
    """Return a manifest of a workload."""
    template = {"spec": {"containers": list(containers)}}
    metadata, spec = {"name": name}, {"template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


def container(**about):
    """Return a container of vLLM's own image."""
    return {"name": "vllm", "image": IMAGE, **about}


def read(*documents, chosen=None):
    """Return the command of a file with documents."""
    return read_manifest(yaml.safe_dump_all(documents), "f.yaml", chosen)


ENV = [{"name": "MODEL", "value": MODEL}, {"name": "TP", "value": "2"}]


@pytest.mark.parametrize(
    "about",
    [
        {"args": ["--model", MODEL, "-tp", "2"]},
        {"args": [MODEL, "-tp=2"]},
        {"command": ["vllm", "serve", MODEL], "args": ["-tp", "2"]},
        {"command": ["python3", "-m", "vllm.entrypoints.openai.api_server", f"--model={MODEL}"]}
        | {"args": ["--tensor_parallel_size", "2"]},
        {"command": ["/bin/sh", "-c"], "args": [COMMAND]},
        {"command": ["/usr/bin/env", "bash", "-euc", f"set -x\nexec {COMMAND} \\\n  --port 80"]},
        {"command": ["bash", "-o", "pipefail", "-c", f"sleep 3 && {COMMAND} 2>&1 | tee log"]},
        {"args": ["$(MODEL)", "--tensor-parallel-size", "$(TP)"], "env": ENV},
        {"command": ["sh", "-c", 'vllm serve "$MODEL" -tp ${TP:-4}'], "env": ENV},
        {"command": ["sh", "-c", "vllm serve $(MODEL) -tp $TP --port $(P)"], "env": ENV},
        {"args": [MODEL, "-tp", "2", "--seed", "$(FROM_A_SECRET)"]},
    ],
)
def test_a_container_says_in_many_ways_what_it_runs(about):
    found = read(workload(container(**about)))
    told = {option.name: value for option, value in found.values.items()}
    idle = ("--port", "--seed")
    assert found.model == MODEL
    assert {name: told[name] for name in told if name not in idle} == {
        "--tensor-parallel-size": "2"
    }
    assert found.where == "f.yaml: llama/vllm"


@pytest.mark.parametrize(
    ("service", "text"),
    [
        ({"image": IMAGE, "command": "--model m -tp 2"}, "--model m -tp 2"),
        ({"image": "vllm/vllm-openai:${TAG:-v1}", "command": ["m", "--seed", "$$1"]}, "m --seed"),
        ({"image": "x", "entrypoint": "vllm serve", "command": "m"}, "m"),
        ({"image": IMAGE, "entrypoint": ["sh", "-c"], "command": ["vllm serve $$M --port 1"]}
         | {"environment": {"M": "m"}}, "m --port 1"),
        ({"build": ".", "command": "sh -c 'vllm serve $$M'", "environment": ["M=m", "N"]}, "m"),
    ],
)  # fmt: skip
def test_a_service_of_compose_runs_its_entry_point_with_its_command(service, text):
    services = {"web": {"image": "nginx", "environment": ["URL=http://vllm:8000"]}, "llm": service}
    found = read({"services": services})
    assert found.text.startswith(f"vllm serve {text}")
    assert found.where == "f.yaml: llm"


def test_compose_may_share_what_services_have():
    text = f"""\
    x-common: &common
      image: {IMAGE}
    services:
      llm:
        <<: *common
        command: >
          --model m
          --max-num-seqs 64
    """
    assert (
        read_manifest(textwrap.dedent(text), "f").text == "vllm serve --model m --max-num-seqs 64"
    )


@pytest.mark.parametrize(
    ("document", "instances", "why"),
    [
        (workload(container(args=["m"])), None, ""),
        (workload(container(args=["m"]), replicas=3), 3, "replicas"),
        (workload(container(args=["m"]), kind="StatefulSet", replicas=1), 1, "replicas"),
        (workload(container(args=["m"]), kind="DaemonSet"), 1, "a DaemonSet has one on each node"),
        ({"services": {"a": {"image": IMAGE, "command": "m", "deploy": {"replicas": 2}}}}, 2,
         "deploy.replicas"),
        ({"services": {"a": {"image": IMAGE, "command": "m", "scale": 4}}}, 4, "scale"),
    ],
)  # fmt: skip
def test_replicas_are_servers(document, instances, why):
    found = read(document)
    assert found.replicas == instances
    assert found.replicated_by.startswith(why)


def test_a_group_of_leader_and_workers_is_a_server(tmp_path):
    """As vLLM's own example: the workers join Ray, and start no server."""
    script = "bash multi-node-serving.sh {} --ray_cluster_size=$(LWS_GROUP_SIZE)"
    leader = f"{script.format('leader')}; vllm serve {MODEL} --port 80 -tp 8"
    pods = {
        f"{role}Template": {"spec": {"containers": [container(command=["sh", "-c", run])]}}
        for role, run in (("leader", leader), ("worker", script.format("worker")))
    }
    spec = {"replicas": 2, "leaderWorkerTemplate": {"size": 2, **pods}}
    found = read({"kind": "LeaderWorkerSet", "metadata": {"name": "group"}, "spec": spec})
    assert found.text == f"vllm serve {MODEL} --port 80 -tp 8"
    assert found.replicas == 2


RUNTIME = {
    "apiVersion": "serving.kserve.io/v1alpha1",
    "kind": "ServingRuntime",
    "metadata": {"name": "of-vllm"},
    "spec": {
        "supportedModelFormats": [{"name": "vLLM"}],
        "containers": [
            {
                "name": "kserve-container",
                "image": "quay.io/modh/vllm:1",
                "command": ["python", "-m", "vllm.entrypoints.openai.api_server"],
                "args": ["--model=/mnt/models", "--served-model-name={{.Name}}", "--port=8080"],
            }
        ],
    },
}


def service(**predictor):
    """Return an InferenceService."""
    about = {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService"}
    return {**about, "metadata": {"name": "llama"}, "spec": {"predictor": predictor}}


@pytest.mark.parametrize("named", [{"runtime": "of-vllm"}, {}])
def test_a_service_of_kserve_adds_to_its_runtime(named):
    model = {"modelFormat": {"name": "vLLM"}, "storageUri": f"hf://{MODEL}:main", **named}
    found = read(RUNTIME, service(minReplicas=2, maxReplicas=4, model=model | {"args": ["-tp=2"]}))
    assert found.model == MODEL
    assert [option.name for option in found.values] == [
        "--served-model-name", "--port", "--tensor-parallel-size",
    ]  # fmt: skip
    assert (found.replicas, found.replicated_by) == (2, "minReplicas, up to maxReplicas 4")
    assert read(RUNTIME).model == "/mnt/models"
    assert read(service(containers=[container(args=["m"])])).model == "m"


def test_the_server_of_kserve_for_hugging_face_hands_on_the_options_of_vllm():
    args = [f"--model_id={MODEL}", "--model_name", "x", "--backend=vllm", "--max-num-seqs=9"]
    found = read(service(model={"modelFormat": {"name": "huggingface"}, "args": args}))
    assert found.text == f"vllm serve --model {MODEL} --served-model-name x --max-num-seqs 9"


def test_other_containers_and_documents_are_none_of_a_server():
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "vllm"}, "spec": {}}
    idle = ({"name": "proxy", "image": "nginx"}, {"name": "b", "command": ["vllm", "bench"]})
    listed = {"apiVersion": "v1", "kind": "List", "items": [claim, workload(*idle)]}
    assert read(claim, listed, workload(*idle, container(args=["m"]))).model == "m"


def test_which_of_several_servers_is_asked():
    documents = [
        workload(container(args=[name], name=name), name=f"{name}-pods") for name in ("a", "b")
    ]
    with pytest.raises(
        InputError, match=r"2 containers start a server: a-pods/a, b-pods/b; choose"
    ):
        read(*documents)
    for chosen in ("b", "b-pods", "b-pods/b"):
        assert read(*documents, chosen=chosen).model == "b"
    with pytest.raises(
        InputError, match=r"--container: 'b-pod': no such container of f\.yaml: .*\?"
    ):
        read(*documents, chosen="b-pod")


def test_servers_of_one_name_are_told_apart():
    twice = [workload(container(args=[name]), name="a") for name in ("m", "n")]
    with pytest.raises(InputError, match="start a server: a/vllm, a/vllm#2; choose"):
        read(*twice)
    assert [read(*twice, chosen=name).model for name in ("a/vllm", "a/vllm#2")] == ["m", "n"]


def test_a_node_without_an_api_is_part_of_another_server():
    nodes = [container(args=["m"]), container(name="worker", args=["m", "--headless"])]
    assert read(workload(*nodes)).where == "f.yaml: llama/vllm"
    assert read(workload(nodes[1])).where == "f.yaml: llama/worker"


def test_the_sweep_of_a_manifest_has_its_replicas(tmp_path):
    env = [{"name": "HF_TOKEN", "value": "s3cret"}, {"name": "VLLM_X", "value": "1"}]
    about = container(args=[MODEL, "--max-num-seqs", "64", "--api-key", "s3cret"], env=env)
    (tmp_path / "d.yaml").write_text(yaml.safe_dump(workload(about, replicas=3)))
    found = answer(Question((str(tmp_path / "d.yaml"),), gpu="h100"))
    assert "s3cret" not in found.text + json.dumps(found.to_dict())
    assert (
        'instances = 3 # replicas\nrouting = "round-robin" # a Service knows no loads' in found.text
    )
    assert "max_num_seqs = 64 # --max-num-seqs" in found.text
    assert "variables of the environment are not read: VLLM_X" in found.notes
    more = container(args=[MODEL, "-dp", "2"])
    (tmp_path / "d.yaml").write_text(yaml.safe_dump(workload(more, replicas=3)))
    found = answer(Question((str(tmp_path / "d.yaml"),), gpu="h100"))
    assert "instances = 6 # --data-parallel-size, times replicas" in found.text


def test_helm_fills_in_its_templates_first():
    text = "apiVersion: apps/v1\nkind: Deployment # {{ .Values.x }}\n# {{ .Values.x }}\n"
    with pytest.raises(InputError, match=r"f: line 2: \{\{ \.Values\.x \}\}: a template; give what "
                       "`helm template"):  # fmt: skip
        read_manifest(text, "f")
    for line in ("{{- end }}", '{{ include "x" . }}', "a: {{ $x }}", "{{- if .Values.a }}"):
        with pytest.raises(InputError, match=r"line 3: .*a template"):
            read_manifest(f"kind: Pod\n#\n{line}\n", "f")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (workload({"name": "a", "image": "vllm-router"}), "no command that starts vLLM"),
        (
            {
                "apiVersion": "serving.kserve.io/v1alpha1",
                "kind": "LLMInferenceService",
                "metadata": {"name": "qwen"},
                "spec": {"model": {"uri": "hf://Qwen/Qwen3-8B"}, "parallelism": {"tensor": 2}},
            },
            "qwen: LLMInferenceService: templates in the cluster decide what its pods start: give "
            "`kubectl get pod POD -o yaml`",
        ),
        (workload(container(image="own/vllm:1", args=["--model", "m"])),
         "llama/vllm: what the image own/vllm:1 starts is not known: give its `command`, as [vllm"),
        (workload(container(args=["m", 256])), "args[1]: 256: Kubernetes takes texts only"),
        (workload(container(args="m")), "args: expected a list of texts, got 'm'"),
        (workload(container(args=["m"]), replicas=0), "replicas: 0: expected a number of servers"),
        (workload(container(args=["m"]), replicas="3"), "replicas: '3': expected a number of"),
        (workload(container(args=["m", "--max-num-sqs=3"])), "did you mean '--max-num-seqs'?"),
        (workload(container(args=["$(MODEL)"])), "llama/vllm: ${MODEL}: a variable of the shell"),
        (workload(container(command=["sh", "-c", "vllm serve $MODEL"])), "$MODEL: a variable of"),
        (workload(container(command=["sh", "-c", "MODEL=b; vllm serve $MODEL"], env=ENV)),
         "$MODEL: a variable of the shell"),
        ({"services": {"a": {"image": IMAGE, "command": "${MODEL:-x}"}}}, "f.yaml: a: ${MODEL}: a"),
        ({"services": {"a": {"image": IMAGE, "command": ["m", 2]}}}, "command[1]: 2: Compose"),
        ({"services": {"a": {"image": IMAGE, "command": "'m"}}}, "a: command: no closing"),
        (service(model={"modelFormat": {"name": "vllm"}}), "llama: model format 'vllm': is not in"),
        (service(model={"runtime": "r", "modelFormat": {"name": "vllm"}}), "runtime 'r': is not"),
        (service(model={"modelFormat": {"name": "huggingface"}, "args": ["--backend=huggingface"]}),
         "--backend huggingface: is not vLLM"),
        (service(model={"modelFormat": {"name": "huggingface"}}, workerSpec={}),
         "llama: workerSpec: what its nodes share is not read: give `kubectl get pod POD"),
    ],
)  # fmt: skip
def test_what_a_manifest_does_not_tell_is_said(document, message):
    with pytest.raises(InputError) as told:
        read(document)
    assert message in str(told.value)
    assert "\n" not in str(told.value)


def test_what_is_no_yaml_is_said_with_its_line():
    text = "kind: Service\n---\nkind: Pod\nspec: [vllm\n"
    with pytest.raises(InputError, match=r"f: line 5: no YAML: expected"):
        read_manifest(text, "f")
    with pytest.raises(InputError, match="a document has at most 131,072"):
        read_manifest("kind: Pod # vllm" + "x" * 200_000, "f")


def test_scripts_and_parts_of_manifests_are_no_manifests():
    assert not is_manifest("#!/bin/sh\nvllm serve m\n")
    with pytest.raises(InputError, match="a part of a manifest: give the whole"):
        answer(Question((f"image: {IMAGE}\nargs: [m]",), gpu="h100"))
    with pytest.raises(InputError, match="--container: has no effect: the command is no manifest"):
        answer(Question((f"vllm serve {MODEL}",), gpu="h100", container="a"))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ('!!int ""', "no YAML: odd value: "),
        ("!!bool x", "no YAML: odd value: "),
        ("!!timestamp x", "no YAML: odd value: "),
        ("2026-13-45", "no YAML: odd value: month must be in 1..12"),
        ("[" * 5000, "no YAML: nested too deeply"),
        ("!!python/object:os.system x", "line 2: no YAML: could not determine a constructor"),
    ],
)
def test_odd_values_of_yaml_are_said(value, message, tmp_path):
    """What PyYAML raises of them is no YAMLError."""
    with pytest.raises(InputError, match=re.escape(message)):
        read_manifest(f"kind: Pod # vllm\nspec: {value}\n", "f")
    (tmp_path / "c.yaml").write_text(f"# vLLM's own\nport: {value}\n")
    with pytest.raises(InputError, match=re.escape(message)):
        read_command([f"vllm serve m --config {tmp_path / 'c.yaml'}"])


def test_a_key_twice_is_refused_as_where_manifests_go():
    text = f"services:\n  vllm:\n    image: {IMAGE}\n    command: a\n    command: b\n"
    with pytest.raises(InputError, match="f: line 5: no YAML: command: is given twice"):
        read_manifest(text, "f")


def test_variables_of_a_service_win_over_those_of_its_runtime():
    (main,) = RUNTIME["spec"]["containers"]
    env = [{"name": "N", "value": "64"}, {"name": "TP", "value": "2"}]
    args = ["--model=m", "--max-num-seqs=$(N)", "--max-model-len=$(L)"]
    runtime = {**RUNTIME, "spec": {"containers": [{**main, "args": args, "env": env}]}}
    own = [{"name": "N", "value": "128"}, {"name": "L", "value": "4096"}]
    model = {"runtime": "of-vllm", "args": ["-tp=$(TP)"], "env": own}
    found = read(runtime, service(model=model))
    assert [*found.values.values()] == ["128", "4096", "2"]


def test_a_service_with_a_command_keeps_the_arguments_of_its_runtime():
    model = {"runtime": "of-vllm", "command": ["vllm", "serve"], "args": ["-tp=2"]}
    found = read(RUNTIME, service(model=model))
    assert found.text.startswith("vllm serve --model /mnt/models")
    assert found.text.endswith("-tp 2")


@pytest.mark.parametrize(
    "about",
    [
        {"command": ["sh", "-c", "vllm serve m --api-key $TOK --served-model-name it's"]},
        {"command": ["sh", "-c", f"vllm serve m {'-' * 45} --api-key $TOK --name it's"]},
        {"command": ["vllm", "serve"], "args": ["m", "$(TOK)"]},
    ],
)
def test_values_of_variables_are_not_in_what_is_refused(about):
    env = [{"name": "TOK", "value": "hf_topsecret12345"}]
    with pytest.raises(InputError) as told:
        read(workload(container(**about, env=env)))
    assert "hf_t" not in str(told.value)


@pytest.mark.parametrize("begin", ["#!/bin/sh\n", "set -e\n", "export A=1\n", ""])
def test_a_script_that_writes_a_manifest_is_a_script(begin):
    text = f"{begin}cat > c.yaml <<EOF\nservices:\n  a: {{}}\nEOF\nexec vllm serve m\n"
    assert not is_manifest(text)


@pytest.mark.parametrize(
    "begin",
    ["", "# mine\n---\n", "version: '3'\n", "x-a: &b\n  c: 1\n", "%YAML 1.2\n---\n"],
)
def test_a_manifest_begins_with_a_key(begin):
    assert is_manifest(f"{begin}services:\n  a: {{image: vllm/vllm-openai}}\n")
    assert is_manifest('{\n "kind": "Pod"}')


@pytest.mark.parametrize(
    ("uri", "args", "text"),
    [
        (f"hf://{MODEL}", ["--model_name=x"], f"vllm serve {MODEL} --served-model-name x"),
        (f"hf://{MODEL}:main", [], f"vllm serve {MODEL}"),
        (f"hf://{MODEL}", ["--model_dir=/mnt/models"], f"vllm serve --model {MODEL}"),
        ("pvc://models/a", ["--max_length", "99"], "vllm serve /mnt/models --max-model-len 99"),
        (
            f"hf://{MODEL}",
            ["--model_id=b", "--model_revision=1"],
            "vllm serve --model b --revision 1",
        ),
    ],
)
def test_the_server_of_kserve_for_hugging_face_serves_what_is_mounted(uri, args, text):
    model = {"modelFormat": {"name": "huggingface"}, "storageUri": uri, "args": args}
    assert read(service(model=model)).text == text


def test_another_container_that_cannot_be_read_does_not_matter():
    script = f'CMD="{COMMAND}"\nCMD="$CMD --max-num-seqs 8"\n$CMD'
    pieces = container(name="pieces", command=["sh", "-c", script])
    file = workload(container(args=[MODEL, "-tp", "2"]), pieces)
    assert read(file, chosen="vllm").text == COMMAND
    for chosen, message in (("pieces", "CMD: has a part of the command only"), (None, "pieces")):
        with pytest.raises(InputError, match=message):
            read(file, chosen=chosen)


def test_an_option_with_a_colon_is_a_table_of_yaml():
    text = f"kind: Pod\nspec:\n  containers:\n  - image: {IMAGE}\n    args: [m, --tp: 3]\n"
    with pytest.raises(InputError, match=r"args\[1\]: an object: .* texts only, as '--tp=3'"):
        read_manifest(text, "f")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("0x" + "f" * 5000, "no YAML: odd value: an integer of 20,000 bits"),
        ("&a [*a]", "line 2: no YAML: an alias inside of what it stands for"),
        ("[" * 100_000, "no YAML: nested too deeply: 100,000 brackets"),
        (
            "\n  a: &a [1,1,1,1,1,1,1,1]\n"
            + "".join(f"  {b}: &{b} [{','.join([f'*{a}'] * 8)}]\n" for a, b in pairwise("abcdefg")),
            "aliases make more than 300,000 values of it",
        ),
    ],
)
def test_yaml_that_would_take_long_is_refused(value, message):
    with pytest.raises(InputError, match=re.escape(message)):
        read_manifest(f"kind: Pod # vllm\nspec: {value}\n", "f")


def test_variables_that_name_themselves_do_not_grow_without_end():
    env = [{"name": "A", "value": "12345678"}, *[{"name": "A", "value": "$(A)$(A)"}] * 60]
    found = read(workload(container(args=["m", "--served-model-name", "x"], env=env)))
    assert len(found.variables["A"]) <= 131_072


def test_many_containers_are_not_all_named():
    many = [container(args=["m"], name=f"c{n}") for n in range(50)]
    with pytest.raises(InputError, match=r"50 containers .*llama/c11 and 38 more; choose one"):
        read(workload(*many))


@pytest.mark.parametrize("kind", ["StormService", "RoleBasedGroup", "CronJob"])
def test_a_kind_whose_containers_are_elsewhere_is_told(kind):
    """It has a command, which is not said to be missing."""
    started = {"containers": [{"name": "v", "command": ["vllm", "serve", "m"]}]}
    document = {
        "apiVersion": "a/v1",
        "kind": kind,
        "metadata": {"name": "x"},
        "spec": {"roles": [{"template": {"spec": started}}]},
    }
    with pytest.raises(InputError, match=f"x: {kind}: its containers .* `kubectl get pod POD"):
        read_manifest(json.dumps(document), "m.yaml")


def test_a_table_that_is_no_option_is_no_example_of_a_text():
    told = r"args\[1\]: .*Kubernetes takes texts only, as '256'"
    with pytest.raises(InputError, match=told):
        read(workload(container(args=["m", {"tp": 2}])))


def test_a_single_replica_needs_no_router(tmp_path):
    for replicas, routed in ((1, False), (2, True)):
        path = tmp_path / f"{replicas}.yaml"
        path.write_text(yaml.safe_dump(workload(container(args=[MODEL]), replicas=replicas)))
        found = answer(Question((str(path),), gpu="h100"))
        assert ("routing" in found.text) == routed


EXTENDED = """\
services:
  base:
    image: vllm/vllm-openai
    environment: [SEQS=64, LEN=4096]
    entrypoint: [sh, -c]
    deploy: {replicas: 2}
  middle: {extends: {service: base}, environment: {LEN: 2048}}
  llm:
    extends: middle
    command: ["exec vllm serve Qwen/Qwen3-8B --max-num-seqs $$SEQS --max-model-len $$LEN"]
"""


def test_a_service_of_compose_has_what_it_extends():
    found = read_manifest(EXTENDED, "compose.yaml")
    assert found.text == "vllm serve Qwen/Qwen3-8B --max-num-seqs 64 --max-model-len 2048"
    assert (found.replicas, found.replicated_by) == (2, "deploy.replicas")
    own = EXTENDED.replace("command:", "deploy: {replicas: 3}\n    command:")
    assert read_manifest(own, "compose.yaml").replicas == 3
    both = "services: {a: {image: vllm/vllm-openai, command: m}, b: {extends: a, command: m -tp 2}}"
    with pytest.raises(InputError, match=r"2 containers start a server: a, b; choose one"):
        read_manifest(both, "compose.yaml")
    assert read_manifest(both, "compose.yaml", "b").text == "vllm serve m -tp 2"


@pytest.mark.parametrize(
    "extends", ["{file: other.yaml, service: a}", "absent", "llm", "{service: 3}", "[a]"]
)
def test_a_service_that_extends_what_is_elsewhere_is_refused(extends):
    text = f"services:\n  llm:\n    extends: {extends}\n    command: [vllm, serve, m]\n"
    with pytest.raises(InputError, match=r"llm: extends a service that is not in the file: give"):
        read_manifest(text, "compose.yaml")
    assert read_manifest(f"{text}    image: mine\n", "compose.yaml").text == "vllm serve m"


@pytest.mark.parametrize(
    ("document", "instances", "why"),
    [
        (workload(container(args=["m"]), replicas=None), None, ""),
        (workload(container(args=["m"]), kind="Job", parallelism=3), 3, "parallelism"),
        ({"services": {"a": {"image": IMAGE, "command": "m", "deploy": {"mode": "global"}}}}, 1,
         "deploy.mode global has one on each node"),
    ],
)  # fmt: skip
def test_replicas_that_are_not_counted_by_that_name(document, instances, why):
    """Nothing of it was told, and replicas that are null were refused."""
    found = read(document)
    assert found.replicas == instances
    assert found.replicated_by.startswith(why)


@pytest.mark.parametrize(
    "beside",
    [
        "---\napiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nspec: {minReplicas: 3}\n",
        "---\nkind: 'ScaledObject' # of KEDA\n",
        "---\nmetadata: {annotations: {autoscaling.knative.dev/min-scale: '2'}}\n",
        '---\n{"kind": "VariantAutoscaling"}\n',
    ],
)
def test_what_scales_a_server_is_told(beside):
    """One server was taken without a word, whatever it keeps."""
    text = yaml.safe_dump(workload(container(args=["m"])))
    told = [note for note in read_manifest(text + beside, "f.yaml").notes if "is not read" in note]
    assert len(told) == 1
    assert told[0].endswith("servers it keeps is not read; --set cluster.instances=N has N")
    remark = f"{text}# kind: HorizontalPodAutoscaler\n"
    assert not any("is not read" in note for note in read_manifest(remark, "f.yaml").notes)


@pytest.mark.parametrize(
    "before",
    [
        "TP=4",
        "TP+=0",
        "((TP*=2))",
        "((TP++))",
        "read -r TP < f",
        "unset X TP",
        "for TP in 1 2; do :",
    ],
)
def test_a_variable_that_a_script_sets_anew_has_not_the_value_of_the_manifest(before):
    """`for`, `read`, `unset` and `+=` were passed over."""
    env = [{"name": "TP", "value": "2"}]
    script = container(command=["sh", "-c", f"{before}; vllm serve m -tp $TP"], env=env)
    assert read(workload(script)).text == "vllm serve m -tp '$TP'"  # which is refused
    plain = container(command=["sh", "-c", "export TP; vllm serve m -tp $TP"], env=env)
    assert read(workload(plain)).text == "vllm serve m -tp 2"
