"""Ray Serve LLM: which model, which options of vLLM, how many servers, what is told of them."""

import pytest
import yaml

from kvsweep.errors import InputError
from kvsweep.vllm_command.manifests import is_manifest, read_manifest
from kvsweep.vllm_command.to_sweep import Question, answer

MODEL = "meta-llama/Llama-3.1-8B"


def config(name="llama", **about):
    """Return an LLMConfig."""
    return {"model_loading_config": {"model_id": name, "model_source": MODEL}, **about}


def application(*configs, name="llm", path="ray.serve.llm:build_openai_app", **more):
    """Return an application of `serve run`."""
    return {"name": name, "import_path": path, "args": {"llm_configs": [*configs]}, **more}


def serve_file(*apps):
    return {"applications": [*apps]}


def ray_service(*apps):
    """Return a RayService, whose applications are a text."""
    spec = {"serveConfigV2": yaml.safe_dump(serve_file(*apps)), "rayClusterConfig": {}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": {"name": "s"},
        "spec": spec,
    }


def read(document, chosen=None):
    text = yaml.safe_dump(document, sort_keys=False)
    assert is_manifest(text)
    return read_manifest(text, "serve.yaml", chosen)


OPTIONS = {
    "tensor_parallel_size": 2,
    "max_num_seqs": 64,
    "enable_prefix_caching": False,
    "trust_remote_code": True,
    "quantization": None,
    "compilation_config": {"level": 3},
    "cudagraph_capture_sizes": [1, 2],
}


@pytest.mark.parametrize(
    "document",
    [
        serve_file(application(config(engine_kwargs=OPTIONS))),
        ray_service(application(config(engine_kwargs=OPTIONS))),
        application(config(engine_kwargs=OPTIONS)),
        {"llm_configs": [config(engine_kwargs=OPTIONS)]},
        config(engine_kwargs=OPTIONS),
    ],
)
def test_arguments_of_the_engine_are_options_of_the_server(document):
    found = read(document)
    assert found.model == MODEL
    assert {option.name: value for option, value in found.values.items()} == {
        "--served-model-name": "llama",
        "--tensor-parallel-size": "2",
        "--max-num-seqs": "64",
        "--enable-prefix-caching": False,
        "--trust-remote-code": True,
        "--compilation-config": '{"level": 3}',
        "--cudagraph-capture-sizes": ["1", "2"],
        "--distributed-executor-backend": "ray",
    }


@pytest.mark.parametrize(
    ("deployment", "count", "why"),
    [
        ({}, None, ""),
        ({"num_replicas": 3}, 3, "num_replicas"),
        ({"num_replicas": "auto"}, 1, "min_replicas"),
        ({"autoscaling_config": {"min_replicas": 2}}, 2, "min_replicas"),
        ({"autoscaling_config": {"min_replicas": 2, "max_replicas": 5}}, 2,
         "min_replicas, up to max_replicas 5"),
        ({"autoscaling_config": {"max_replicas": 5}}, None, ""),
    ],
)  # fmt: skip
def test_replicas_are_the_least_of_an_autoscaler(deployment, count, why):
    found = read(serve_file(application(config(deployment_config=deployment))))
    assert (found.replicas, found.replicated_by) == (count, why)


def test_one_of_several_models_is_chosen_by_its_name():
    apps = application(config("a"), config("org/b")), application(config("a"), name="more")
    with pytest.raises(InputError, match="3 containers start a server: llm/a, llm/org/b, more/a;"):
        read(serve_file(*apps))
    for chosen in ("org/b", "llm/org/b", "b"):
        assert "--served-model-name org/b" in read(serve_file(*apps), chosen).text
    assert read(serve_file(*apps), "more").where == "serve.yaml: more/a"
    with pytest.raises(InputError, match="'a': 2 containers of this name"):
        read(serve_file(*apps), "a")


def test_prefill_and_decode_are_two_servers():
    args = {f"{part}_config": config(engine_kwargs={"seed": n})
            for n, part in enumerate(("prefill", "decode"))}  # fmt: skip
    app = {"import_path": "ray.serve.llm:build_pd_openai_app", "args": args}
    assert "--seed 0" in read(serve_file(app), "prefill").text.replace("=", " ")
    assert "--seed 1" in read(serve_file(app), "decode").text.replace("=", " ")


def test_a_model_of_a_file_is_looked_for_beside_the_one_that_names_it(tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "a.yaml").write_text(yaml.safe_dump(config()))
    text = yaml.safe_dump(serve_file(application("models/a.yaml", "models/b.yaml")))
    where = str(tmp_path / "serve.yaml")
    assert read_manifest(text, where, "llama").model == MODEL
    with pytest.raises(InputError, match=r"llm_configs\[1\]: .*b.yaml': no such file; name one"):
        read_manifest(text, where, "llm_configs[1]")


@pytest.mark.parametrize("name", ["x" * 5000, "\0", "", "/dev/null", "."])
def test_a_name_that_no_file_has_is_said(name):
    with pytest.raises(InputError, match=r"llm_configs\[0\]: .* no such file; name one") as told:
        read(serve_file(application(name)))
    assert len(str(told.value)) < 500


def test_weights_elsewhere_are_those_of_the_model_that_is_named():
    address = "s3://bucket/x"
    for source in (address, {"bucket_uri": address}, None):
        given = {"model_loading_config": {"model_id": "qwen3-8b", "model_source": source}}
        found = read({**given, "experimental_configs": {"stream_batching_interval_ms": 0}})
        assert found.model == "qwen3-8b"
        told = f"files of {address} are taken for those of qwen3-8b"
        assert found.notes == (() if source is None else (told,))


def test_direct_streaming_is_of_each_replica_in_turn():
    name = "RAY_SERVE_LLM_ENABLE_DIRECT_STREAMING"
    env = {"runtime_env": {"env_vars": {name: "1"}}}
    about = config(deployment_config={"num_replicas": 2})
    for found in (
        read(serve_file(application(about, **env))),
        read(serve_file(application(about | env))),
    ):
        assert found.router == ("round-robin", name)
        assert found.notes == ()


def test_the_sweep_of_a_ray_service_has_its_gpu_and_its_notes(tmp_path):
    about = config(
        accelerator_type="H100",
        deployment_config={"num_replicas": 2, "max_ongoing_requests": 32},
        runtime_env={"env_vars": {"VLLM_X": "1", "HF_TOKEN": "hf_secret"}},
    )
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(ray_service(application(about))))
    found = answer(Question((str(tmp_path / "s.yaml"),)))
    assert 'gpu = "h100" # accelerator_type H100' in found.text
    assert 'instances = 2 # num_replicas\nrouting = "least-loaded" # nearest to Ray' in found.text
    assert "variables of the environment are not read: VLLM_X" in found.notes
    assert "Ray Serve hands on tokens every 50 ms, here each at once" in found.notes
    assert "max_ongoing_requests 32: others wait at Ray Serve, here at the server" in found.notes
    assert "hf_secret" not in found.text
    found = answer(Question((str(tmp_path / "s.yaml"),), gpu="h200"))
    assert 'gpu = "h200" # --gpu' in found.text
    assert "the file has accelerator_type H100, --gpu another GPU, which is taken" in found.notes
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(config(accelerator_type="A100")))
    with pytest.raises(InputError, match="--gpu: missing"):  # it has 40 or 80 GB
        answer(Question((str(tmp_path / "s.yaml"),)))


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"engine_kwargs": {"max_num_sqs": 3}},
         "llm_configs[0]: engine_kwargs: max_num_sqs: no argument of vLLM 0.33.0; did you mean "
         "'max_num_seqs'?"),
        ({"engine_kwargs": {"max_num_seq": 3}}, "max_num_seq: no argument of vLLM"),
        ({"engine_kwargs": {"enforce_eager": 1}}, "enforce_eager: 1: expected true or false"),
        ({"engine_kwargs": ["seed"]}, "engine_kwargs: expected a table of settings, got a list"),
        ({"deployment_config": 3}, "llm_configs[0]: deployment_config: expected a table"),
        ({"deployment_config": {"autoscaling_config": 2}}, "autoscaling_config: expected a table"),
        ({"engine_kwargs": {"model": "m"}}, "engine_kwargs.model: Ray takes it of model_loading"),
        ({"engine_kwargs": {"distributed_executor_backend": "mp"}}, "'mp': Ray takes ray alone"),
        ({"enginekwargs": {}}, "enginekwargs: no key of Ray 2.60.0; did you mean 'engine_kwargs'?"),
        ({"llm_engine": "SGLang"}, "llm_engine: 'SGLang': is not vLLM"),
        ({"server_cls": "a:B"}, "server_cls: a server of one's own is not simulated"),
        ({"accelerator_config": {"kind": "tpu"}}, "a server without GPUs is not simulated"),
        ({"accelerator_type": "TPU-V6E"}, "a server without GPUs is not simulated"),
        ({"placement_group_config": {"bundles": [{"CPU": 2}]}}, "a server without GPUs"),
        ({"model_loading_config": {}}, "model_loading_config.model_id: missing"),
        ({"deployment_config": {"autoscaling_config": {"min_replicas": 0}}},
         "min_replicas: 0: expected a number of servers, 1 or more"),
        ({"engine_kwargs": {"runner": "pooling"}}, "only models that generate are simulated"),
    ],
)  # fmt: skip
def test_what_is_not_simulated_or_not_there_is_said(about, message):
    document = serve_file(application(config() | about))
    with pytest.raises(InputError) as told:
        answer(Question((yaml.safe_dump(document, sort_keys=False),), gpu="h100"))
    assert message in str(told.value)
    assert "\n" not in str(told.value)


def test_an_application_of_ones_own_is_python():
    own = {"import_path": "serve:model", "runtime_env": {"env_vars": {"MODEL": "vllm"}}}
    told = "import_path serve:model: is Python, which is not read: give the command of vLLM"
    for document in (serve_file(own), ray_service(own)):
        with pytest.raises(InputError, match=told):
            read(document)
    assert read(serve_file(own, application(config()))).model == MODEL


def test_a_part_of_a_gpu_and_routers_of_ones_own_are_told():
    about = config(
        placement_group_config={"bundle_per_worker": {"GPU": 0.5}},
        deployment_config={"request_router_config": {}},
        experimental_configs={"stream_batching_interval_ms": 0},
        lora_config={},
    )
    app = application(about, deployments=[{"name": "x"}])
    assert [note.partition(":")[0] for note in read(serve_file(app)).notes] == [
        "request_router_config is not read",
        "placement_group_config has 0.5 of a GPU",
        "lora_config is not read",
        "deployments of the application are not read",
    ]


def test_replicas_of_data_parallel_servers_are_groups(tmp_path):
    about = config(
        accelerator_type="H100",
        engine_kwargs={"data_parallel_size": 2},
        deployment_config={"num_replicas": 3},
    )
    app = {"import_path": "ray.serve.llm:build_dp_openai_app", "args": {"llm_config": about}}
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(serve_file(app)))
    found = answer(Question((str(tmp_path / "s.yaml"),)))
    assert "instances = 6 # --data-parallel-size, times num_replicas" in found.text
