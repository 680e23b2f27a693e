"""Files that start servers, of all kinds, with what is drawn of a `random.Random`."""

import json

import yaml

from kvsweep.errors import InputError
from kvsweep.vllm_command.to_sweep import Question, answer

MODEL = "meta-llama/Llama-3.1-8B"

RAY = """\
apiVersion: ray.io/v1
kind: RayService
metadata: {{name: llm}}
spec:
  serveConfigV2: |
    applications:
    - name: app
      import_path: ray.serve.llm:build_openai_app
      runtime_env: {{env_vars: {{VLLM_A: "1"}}}}
      args:
        llm_configs:
        - model_loading_config: {{model_id: llama, model_source: {model}}}
          accelerator_type: H100
          engine_kwargs:
            tensor_parallel_size: {tp}
            max_num_seqs: {seqs}
            enable_prefix_caching: {on}
            kv_transfer_config: null
          deployment_config:
            autoscaling_config: {{min_replicas: {count}, max_replicas: 8}}
            max_ongoing_requests: 64
          placement_group_config: {{bundle_per_worker: {{GPU: 1, CPU: 2}}}}
          experimental_configs: {{stream_batching_interval_ms: 0}}
"""

STACK = """\
servingEngineSpec:
  env: [{{name: VLLM_A, value: "1"}}]
  modelSpec:
  - name: llama
    repository: vllm/vllm-openai
    tag: v0.33.0
    modelURL: {model}
    replicaCount: {count}
    requestGPU: 1
    vllmConfig:
      maxNumSeqs: {seqs}
      tensorParallelSize: {tp}
      enablePrefixCaching: {on}
      gpuMemoryUtilization: 0.85
      extraArgs: ["--max-num-batched-tokens", 4096]
    lmcacheConfig: {{enabled: false}}
    keda: {{enabled: true, maxReplicaCount: 9}}
routerSpec:
  routingLogic: session
"""

LLM_D = """\
modelArtifacts:
  name: {model}
  uri: "hf://{{{{ .Values.modelArtifacts.name }}}}"
decode:
  replicas: {count}
  parallelism: {{tensor: {tp}, data: 2}}
  containers:
  - name: vllm
    image: ghcr.io/llm-d/llm-d:v1
    modelCommand: vllmServe
    args: [--max-num-seqs, "{seqs}"]
    env: [{{name: A, value: "$(TP_SIZE)"}}]
prefill:
  create: {on}
  replicas: 0
"""

CHART = """\
image:
  repository: vllm/vllm-openai
  tag: latest
  command: [vllm, serve, {model}, --max-num-seqs, "{seqs}", -tp, "{tp}"]
replicaCount: {count}
autoscaling: {{enabled: {on}, maxReplicas: 4}}
"""

DOCKER = """\
# syntax=docker/dockerfile:1
ARG TAG=v0.33.0
FROM vllm/vllm-openai:$TAG AS base
ENV SEQS={seqs} TP="{tp}"
RUN pip install x \\
    # why
    y
FROM base
ENTRYPOINT ["/bin/sh", "-c"]
CMD ["vllm serve {model} --max-num-seqs $SEQS -tp ${{TP:-1}}"]
"""

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: llm}}
spec:
  replicas: {count}
  template:
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v1
        args: [{model}, --max-num-seqs, $(SEQS), -tp, "{tp}"]
        env: [{{name: SEQS, value: "{seqs}"}}]
"""

SCRIPT = """\
#!/bin/bash
#SBATCH --gres=gpu:{tp}
export VLLM_A=1
echo "vllm serve {model} --max-num-seqs {seqs} -tp {tp}" > start.sh
srun bash ./start.sh
"""

KINDS = {
    "RayService": (RAY, "serve.yaml"),
    "production stack": (STACK, "values.yaml"),
    "llm-d": (LLM_D, "values.yaml"),
    "vLLM's chart": (CHART, "values.yaml"),
    "Dockerfile": (DOCKER, "Dockerfile"),
    "Deployment": (DEPLOYMENT, "pods.yaml"),
    "script": (SCRIPT, "run.sh"),
}
"""Each kind of file, and a name that it has."""


def made_server(kind):
    """Return a function that makes a file of a kind, of a `random.Random`."""

    def make(rng):
        drawn = {
            "model": MODEL,
            "tp": rng.choice((1, 2, 4)),
            "seqs": rng.choice((1, 64, 256)),
            "count": rng.choice((1, 2, 3)),
            "on": rng.choice(("true", "false")),
        }
        template, name = KINDS[kind]
        text = template.format(**drawn)
        as_json = name.endswith(".yaml") and rng.random() < 0.5
        return (json.dumps(yaml.safe_load(text)) if as_json else text).encode()

    return make


def server(path):
    """Return the sweep of a server, checked; what is wrong names the file or an option."""
    try:
        found = answer(Question((str(path),), gpu="h100"))
    except InputError as error:
        told = str(error)
        raise error if not told.startswith("--") else InputError(f"{path}: {told}") from None
    assert found.scenario.cache.gpu_blocks > 0
    assert found.scenario.cluster.instances >= 1
    assert "hf_" not in found.text
    json.dumps(found.to_dict())
    return found
