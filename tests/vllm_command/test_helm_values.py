"""Values of Helm charts: the command that each chart makes of them, or why none is known."""

import json

import pytest
import yaml

from kvsweep.errors import InputError
from kvsweep.vllm_command.kinds import command_of
from kvsweep.vllm_command.manifests import is_manifest, read_manifest
from kvsweep.vllm_command.to_sweep import Question, answer

MODEL = "meta-llama/Llama-3.1-8B"


def read(values, chosen=None):
    text = values if isinstance(values, str) else yaml.safe_dump(values, sort_keys=False)
    assert is_manifest(text)
    return read_manifest(text, "values.yaml", chosen)


def spec(name="llama", **about):
    """Return a model of the production stack."""
    image = {"repository": "vllm/vllm-openai", "tag": "v0.33.0"}
    return {"name": name, **image, "modelURL": MODEL, "replicaCount": 1, **about}


def stack(*specs, **more):
    return {"servingEngineSpec": {"runtimeClassName": "", "modelSpec": [*specs]}, **more}


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({}, ""),
        ({"vllmConfig": {}}, ""),
        ({"vllmConfig": {"v1": 1}}, " --no-enable-prefix-caching"),
        ({"vllmConfig": {"enablePrefixCaching": True, "enableChunkedPrefill": False}},
         " --no-enable-chunked-prefill --enable-prefix-caching"),
        ({"vllmConfig": {"enablePrefixCaching": "false"}}, " --enable-prefix-caching"),
        ({"vllmConfig": {"enablePrefixCaching": True, "maxNumSeqs": 32, "dtype": "bfloat16",
                         "tensorParallelSize": 2, "maxModelLen": 4096, "maxLoras": 4,
                         "gpuMemoryUtilization": 0.8, "extraArgs": ["--seed", 7]}},
         " --enable-prefix-caching --max-model-len 4096 --dtype bfloat16 --tensor-parallel-size 2 "
         "--max-num-seqs 32 --gpu-memory-utilization 0.8 --max-loras 4 --seed 7"),
        ({"enableLoRA": True, "enableTool": True, "toolCallParser": "hermes",
          "chatTemplate": "{{ a }}\nb", "modelRevision": "v1"},
         " --enable-lora --enable-auto-tool-choice --tool-call-parser hermes --revision v1 "
         "--chat-template template.jinja"),
        ({"lmcacheConfig": {"enabled": False}, "raySpec": {"enabled": False}}, ""),
        ({"lwsSpec": {"enabled": True, "size": 2}, "vllmConfig": {"enablePrefixCaching": True}},
         " --enable-prefix-caching --distributed-executor-backend mp --nnodes 2 "
         "--pipeline-parallel-size 2"),
        ({"lwsSpec": {"enabled": True, "size": 2},
          "vllmConfig": {"enablePrefixCaching": 1, "pipelineParallelSize": 1}},
         " --enable-prefix-caching --distributed-executor-backend mp --nnodes 2 "
         "--pipeline-parallel-size 1"),
    ],
)  # fmt: skip
def test_the_production_stack_makes_this_command(about, words):
    found = read(stack(spec(**about)))
    assert found.text == f"vllm serve {MODEL}{words}"
    assert found.where == "values.yaml: llama/vllm"


def test_models_that_are_deployed_are_chosen_by_name():
    values = stack(spec(), spec("qwen", modelURL="q"), spec("off", enabled=False))
    with pytest.raises(InputError, match="2 containers start a server: llama/vllm, qwen/vllm; "):
        read(values)
    assert read(values, "qwen").model == "q"
    values["servingEngineSpec"]["enableEngine"] = False
    with pytest.raises(InputError, match="of a chart that is not known"):
        read(values)


@pytest.mark.parametrize(
    ("more", "router", "notes"),
    [
        ({}, "round-robin", []),
        ({"routerSpec": {"routingLogic": "roundrobin"}}, "round-robin", []),
        ({"routerSpec": {"enableRouter": False}}, None, []),
        ({"routerSpec": {"routingLogic": "prefixaware"}}, "round-robin",
         ["routingLogic prefixaware is not simulated"]),
    ],
)  # fmt: skip
def test_the_router_of_the_stack_is_told_where_there_are_replicas(more, router, notes):
    found = read(stack(spec(replicaCount=3), **more))
    assert (found.router and found.router[0]) == router
    assert [note.partition(":")[0] for note in found.notes] == notes
    assert read(stack(spec(), **more)).notes == ()


def test_variables_and_replicas_of_the_stack(tmp_path):
    env = [{"name": "VLLM_A", "value": "1"}, {"name": "SEQS", "value": "64"}]
    config = {"v0": "1", "extraArgs": ["--max-num-seqs", "$(SEQS)"]}
    about = spec(
        env=env,
        vllmConfig=config,
        replicaCount=2,
        keda={"enabled": True, "maxReplicaCount": 5},
        requestGPUType="nvidia.com/mig-4g.71gb",
    )
    (tmp_path / "v.yaml").write_text(yaml.safe_dump(stack(about)))
    found = answer(Question((str(tmp_path / "v.yaml"),), gpu="h100"))
    assert "max_num_seqs = 64 # --max-num-seqs" in found.text
    assert "instances = 2 # replicaCount, up to maxReplicaCount 5" in found.text
    assert 'routing = "round-robin" # routingLogic roundrobin' in found.text
    assert "variables of the environment are not read: VLLM_A, VLLM_USE_V1" in found.notes
    assert "requestGPUType: a part of a GPU: give its memory as --gpu" in found.notes


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"vllmConfig": {"maxNumSeq": 3}}, "llama: vllmConfig.maxNumSeq: no key of the chart "
         "vllm-stack 0.1.16, which leaves it out; did you mean 'maxNumSeqs'?; give it in extra"),
        ({"vllmConfig": {"pipelineParallelSize": 2}}, "vllmConfig.pipelineParallelSize: no key"),
        ({"vllmConfig": {"extraArgs": "--seed 1"}}, "extraArgs: expected a list of texts"),
        ({"vllmConfig": {"extraArgs": [{"--tp": 3}]}}, "extraArgs[0]: expected a text or a number"),
        ({"vllmConfig": ["--seed"]}, "llama: vllmConfig: expected a table of settings, got a list"),
        ({"lmcacheConfig": {"enabled": True}}, "lmcacheConfig: LMCache is not simulated; enabled:"),
        ({"raySpec": {"headNode": {}}}, "raySpec: a script in the cluster starts it"),
        ({"modelURL": None}, "llama: modelURL: missing"),
        ({"lwsSpec": {"enabled": True}}, "lwsSpec.size: expected a text or a number, got null"),
        ({"replicaCount": 0}, "replicaCount: 0: expected a number of servers"),
        ({"vllmConfig": {"extraArgs": ["--swap-space", 0]}}, "--swap-space: no option"),
    ],
)  # fmt: skip
def test_what_the_stack_does_not_make_is_said(about, message):
    with pytest.raises(InputError) as told:
        read(stack(spec(**about), spec("fine", enabled=False)))
    assert message in str(told.value)
    assert "\n" not in str(told.value)
    assert read(stack(spec(**about), spec("fine")), "fine").model == MODEL


def role(**about):
    """Return a part of a service of llm-d."""
    container = {"name": "vllm", "image": "ghcr.io/llm-d/llm-d:v1", "modelCommand": "vllmServe"}
    more = {key: about.pop(key) for key in ("replicas", "parallelism", "create") if key in about}
    return {"containers": [container | about], **more}


def service(uri=f"hf://{MODEL}", **roles):
    return {"modelArtifacts": {"name": MODEL, "uri": uri}, **roles}


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({}, f"{MODEL} --port 8200 --served-model-name {MODEL}"),
        ({"args": ["--seed", "1"]}, f"{MODEL} --port 8200 --served-model-name {MODEL} --seed 1"),
        ({"parallelism": {"tensor": 2, "data": 4, "workers": 2}},
         f"{MODEL} --port 8200 --tensor-parallel-size 2 --data-parallel-size 4 "
         f"--data-parallel-size-local 2 --served-model-name {MODEL}"),
        ({"parallelism": {"dataLocal": 2, "workers": 2}},
         f"{MODEL} --port 8200 --data-parallel-size 4 --data-parallel-size-local 2 "
         f"--served-model-name {MODEL}"),
        ({"modelCommand": "imageDefault", "image": "vllm/vllm-openai:v1"},
         f"{MODEL} --port 8200 --served-model-name {MODEL}"),
        ({"modelCommand": "custom", "command": ["vllm", "serve", "m"], "args": ["--seed", "2"]},
         "m --seed 2"),
        ({"modelCommand": None, "command": ["sh", "-c"], "parallelism": {"tensor": 4},
          "args": ["exec vllm serve m -tp $TP_SIZE -dp $DP_SIZE"]}, "m -tp 4 -dp 1"),
    ],
)  # fmt: skip
def test_llm_d_makes_this_command(about, words):
    found = read(service(decode=role(**about)))
    assert found.text == f"vllm serve {words}"
    assert (found.replicas, found.replicated_by) == (1, "decode.replicas")


@pytest.mark.parametrize(
    ("routing", "decode", "prefill"),
    [
        ({}, "8200", "8000"),
        ({"servicePort": 9000, "proxy": {"targetPort": 9200}}, "9200", "9000"),
        ({"proxy": {"enabled": False, "targetPort": 8000}}, "8000", "8000"),
    ],
)
def test_llm_d_has_a_port_of_its_own_behind_a_proxy(routing, decode, prefill):
    values = service(decode=role(), prefill=role(replicas=1), routing=routing)
    assert f"--port {decode} " in read(values, "decode").text
    assert f"--port {prefill} " in read(values, "prefill").text


@pytest.mark.parametrize(
    ("uri", "model"),
    [
        ("hf://a/b", "a/b"),
        ('hf://"{{ .Values.modelArtifacts.name }}"', MODEL),
        ("pvc://claim/models/a", "/model-cache/models/a"),
        ("pvc+hf://claim/hub/a/b", "a/b"),
    ],
)
def test_llm_d_takes_the_model_of_its_address(uri, model):
    assert read(service(uri, decode=role())).model == model


def test_decode_and_prefill_are_two_containers():
    values = service(decode=role(replicas=2), prefill=role(replicas=3, args=["--seed", "9"]))
    with pytest.raises(InputError, match="2 containers start a server: decode/vllm, prefill/vllm"):
        read(values)
    found = read(values, "decode")
    assert (found.replicas, found.router[0]) == (2, "least-loaded")
    assert "llm-d's scheduler is not read" in found.notes[0]
    assert read(values, "prefill").text.endswith("--seed 9")
    values["prefill"]["replicas"] = 0
    assert read(values).replicas == 2
    del values["prefill"]["replicas"]  # none, as the chart has it
    assert read(values).replicas == 2


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (service("oci://x", decode=role()), "modelArtifacts.uri: 'oci://x': expected hf://MODEL"),
        (service("hf://{{ .Values.global.m }}", decode=role()), "uri: 'hf://{{ .Values.global.m"),
        (service(decode=role(modelCommand="imageDefault")),
         "what the image ghcr.io/llm-d/llm-d:v1 starts is not known: give its command, or model"),
        (service(decode=role(modelCommand="serve")), "modelCommand: 'serve'; the chart takes"),
        (service(decode=role(modelCommand="custom")), "command: missing, with modelCommand custom"),
        (service(decode=role(parallelism={"tensor": "2"})), "tensor: '2': expected a whole number"),
        (service(decode=role(parallelism=2)), "decode: parallelism: expected a table of settings"),
        (service(decode=role(parallelism={"tensors": 2})), "tensors: no key of the chart llm-d"),
        (service(decode=role(args=[5])), "decode.containers.args[0]: 5: Kubernetes takes texts"),
    ],
)  # fmt: skip
def test_what_llm_d_does_not_make_is_said(values, message):
    with pytest.raises(InputError) as told:
        read(values)
    assert message in str(told.value)
    assert str(told.value).startswith("values.yaml: ")


COMMAND = ["vllm", "serve", MODEL, "--max-num-seqs", "$(N)"]
EXAMPLE = {
    "image": {"repository": "x", "command": COMMAND, "env": [{"name": "N", "value": "64"}]},
    "replicaCount": 3,
    "autoscaling": {"enabled": True, "maxReplicas": 9},
}


def test_the_chart_of_vllms_examples_has_a_whole_command():
    found = read(EXAMPLE)
    assert found.text == f"vllm serve {MODEL} --max-num-seqs 64"
    assert (found.replicas, found.replicated_by) == (
        3, "replicaCount, up to autoscaling.maxReplicas 9",
    )  # fmt: skip
    with pytest.raises(InputError, match="extraArgs: no key of the chart chart-vllm"):
        read({**EXAMPLE, "extraArgs": ["--seed", "1"]})


@pytest.mark.parametrize(
    "wrapped",
    [
        {"vllm-stack": stack(spec()), "global": {}},
        {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
         "spec": {"values": stack(spec())}},
        {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
         "spec": {"source": {"helm": {"valuesObject": stack(spec())}}}},
        {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
         "spec": {"sources": [{"helm": {"values": yaml.safe_dump(stack(spec()))}}]}},
    ],
)  # fmt: skip
def test_values_are_found_where_others_have_them(wrapped):
    assert read(wrapped).text == f"vllm serve {MODEL}"


def test_values_may_be_json():
    values = {
        "multinode": False,
        **service("hf://{{ .Values.modelArtifacts.name }}", decode=role()),
    }
    for text in (json.dumps(values), json.dumps(values, indent=2)):
        assert read(text).model == MODEL


def test_values_of_another_chart_are_none_to_be_read():
    values = {"image": {"repository": "vllm/vllm-openai"}, "args": ["--model", "m"]}
    with pytest.raises(InputError, match="of a chart that is not known: give what `helm template"):
        read(values)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("DynamoGraphDeployment", "its pods start dynamo.vllm: give `vllm serve` with the same"),
        ("Kustomization", "names other files: give what `kubectl kustomize FOLDER` makes of it"),
        ("VLLMRuntime", "templates of its operator decide what its pods start: give `kubectl get"),
    ],
)
def test_kinds_that_do_not_say_what_is_started(kind, message):
    with pytest.raises(InputError, match=f"vllm: {kind}: {message}"):
        read({"apiVersion": "v1", "kind": kind, "metadata": {"name": "vllm"}})


def test_a_pipeline_of_gitlab_has_an_image_too_and_is_a_script():
    text = f"image:\n  name: vllm/vllm-openai:v1\nserve:\n  script:\n    - vllm serve {MODEL}\n"
    assert not is_manifest(text)
    assert command_of(text, "f").text == f"vllm serve {MODEL}"
