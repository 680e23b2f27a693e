"""Servers of a cluster in which prefill and decode are apart, as one sweep."""

import json
import tomllib

import pytest
import yaml

from kvsweep.config.fleet import fleet
from kvsweep.config.transfer import pull_gb_per_s
from kvsweep.errors import InputError
from kvsweep.vllm_command.one_server import Question
from kvsweep.vllm_command.to_sweep import answer

LLAMA = "meta-llama/Llama-3.1-8B"
LINK = "cluster.kv_transfer_bandwidth=0.38"
IMAGE = "vllm/vllm-openai:v0.33.0"
ROLES = {"prefill": "kv_producer", "decode": "kv_consumer"}


def connector(role="kv_both", **more):
    """Return what --kv-transfer-config has."""
    return json.dumps({"kv_connector": "NixlConnector", "kv_role": role, **more})


def serve(options="", role="kv_both", model=LLAMA, **more):
    """Return a line of a script that starts a server in the background."""
    return f"vllm serve {model} {options} --kv-transfer-config '{connector(role, **more)}' &"


def script(prefill="", decode="", **more):
    """Return a script that starts a server of each role."""
    lines = (serve(own, ROLES[role], **more)
             for role, own in (("prefill", prefill), ("decode", decode)))  # fmt: skip
    return "#!/bin/sh\n" + "\n".join(lines) + "\nwait\n"


def taken(text, *overrides, gpu="h100", **more):
    """Return what is made of a text."""
    return answer(Question((text,), gpu=gpu, overrides=(LINK, *overrides), **more))


def cluster(found):
    """Return the section of the cluster, as the file has it."""
    return tomllib.loads(found.text)["cluster"]


def test_servers_of_both_roles_are_one_cluster():
    found = taken(script("--port 8100", "--port 8200"))
    assert cluster(found) == {
        "prefill": {"instances": 1},
        "decode": {"instances": 1},
        "kv_lease_us": 30_000_000,
        "kv_transfer_bandwidth": 0.38,
    }
    assert found.text.startswith(f"# prefill: vllm serve {LLAMA} --port 8100 ")
    assert f"\n# decode: vllm serve {LLAMA} --port 8200 " in found.text
    assert "without effect here: --port" in found.notes
    assert not any("--log" in note for note in found.notes)


@pytest.mark.parametrize(
    ("prefill", "decode", "model"),
    [
        ("", "-tp 2", LLAMA),
        ("-tp 4 --max-num-batched-tokens 16384", "--max-num-seqs 64", LLAMA),
        ("--gpu-memory-utilization 0.7", "", LLAMA),
        ("--num-gpu-blocks-override 900", "--max-num-seqs 32 --kv-cache-memory-bytes 8G", LLAMA),
        ("-tp 2 --num-gpu-blocks-override 900", "", "openai/gpt-oss-20b"),
        ("-tp 2 -dp 2", "-tp 4", "Qwen/Qwen3-30B-A3B"),
        ("-tp 4", "-tp 2 -dp 2", "Qwen/Qwen3-30B-A3B"),
    ],
)
def test_each_side_has_the_blocks_batches_and_times_that_it_has_by_itself(prefill, decode, model):
    both = fleet(taken(script(prefill, decode, model=model)).scenario)
    assert [pool.role for pool in both] == ["prefill", "decode"]
    for pool, own in zip(both, (prefill, decode), strict=True):
        alone = answer(Question((f"vllm serve {model} {own}",), gpu="h100")).scenario
        (by_itself,) = fleet(alone)
        assert vars(pool) == vars(by_itself) | {"role": pool.role}


def test_names_of_a_manifest_tell_roles_that_connectors_do_not():
    services = {
        f"llm-{role}": {"image": IMAGE, "command": [LLAMA, "--kv-transfer-config", connector(),
                                                    *more], "deploy": {"replicas": count}}
        for role, count, more in (("decode", 2, ["-tp", "2"]), ("prefill", 3, []))
    }  # fmt: skip
    found = taken(yaml.safe_dump({"services": services}))
    assert cluster(found)["decode"] == {"instances": 2}
    assert cluster(found)["prefill"]["instances"] == 3
    assert cluster(found)["prefill"]["gpu_blocks"] < found.scenario.cache.gpu_blocks
    assert cluster(found)["routing"] == "round-robin"


def deployment(name, role, **spec):
    """Return a Deployment of Kubernetes."""
    args = [LLAMA, "--kv-transfer-config", connector(role)]
    pod = {"containers": [{"name": "vllm", "image": IMAGE, "args": args},
                          {"name": "proxy", "image": "nginx"}]}  # fmt: skip
    about = {"replicas": 1, "template": {"spec": pod}, **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": about}  # fmt: skip


def test_a_connector_s_role_goes_before_a_name():
    text = yaml.safe_dump_all([deployment("decode", "kv_producer", replicas=2),
                               deployment("prefill", "kv_consumer")])  # fmt: skip
    assert cluster(taken(text))["prefill"] == {"instances": 2}


def test_both_parts_of_llm_d_s_chart_are_one_cluster():
    args = ["--kv-transfer-config", connector()]
    part = {"containers": [{"name": "vllm", "modelCommand": "vllmServe", "args": args}]}
    values = {
        "modelArtifacts": {"uri": f"hf://{LLAMA}", "name": LLAMA},
        "decode": {**part, "parallelism": {"tensor": 4}},
        "prefill": {**part, "replicas": 4},
    }
    found = cluster(taken(yaml.safe_dump(values)))
    assert found["prefill"]["instances"] == 4
    assert found["decode"] == {"instances": 1}
    assert found["routing"] == "least-loaded"


def test_both_configurations_of_ray_are_one_cluster():
    config = {"model_loading_config": {"model_id": LLAMA}, "accelerator_type": "H100",
              "engine_kwargs": {"kv_transfer_config": json.loads(connector())}}  # fmt: skip
    counts = {"prefill": {"num_replicas": 2},
              "decode": {"autoscaling_config": {"min_replicas": 3, "max_replicas": 5}}}  # fmt: skip
    args = {f"{role}_config": config | {"deployment_config": own} for role, own in counts.items()}
    app = {"import_path": "ray.serve.llm:build_pd_openai_app", "args": args,
           "name": "prefill-and-decode"}  # fmt: skip
    found = taken(yaml.safe_dump({"applications": [app]}), gpu=None)
    assert cluster(found)["prefill"] == {"instances": 2}
    assert cluster(found)["decode"] == {"instances": 3}
    assert found.scenario.model.gpu == "h100"


def test_servers_that_are_alike_may_prefill_or_decode():
    assert cluster(taken(f"{serve('--port 1')}\n{serve('--port 2')}"))["decode"] == {"instances": 1}


def test_servers_of_a_side_are_counted():
    lines = [serve(f"--port {n}", role) for n, role in enumerate([*ROLES.values()] * 3)]
    found = cluster(taken("\n".join(lines)))
    assert found["prefill"] == found["decode"] == {"instances": 3}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{serve()}\n{serve('-tp 2')}", "which of the 2 servers prefill is not told"),
        (f"{serve(role='kv_producer')}\n{serve('-tp 2', 'kv_producer')}", "none of which is to"),
        (script("--block-size 32"), r"cache.block_size: 32 \(--block-size\) of prefill, 16 \(vLLM"),
        (script("", "--no-async-scheduling"), "engine.async_scheduling: true .* of prefill, false"),
        (script("", "--watermark 0.1"), r"engine.watermark: not given of prefill, 0.1 \(--waterma"),
        (f"{script()}\n{serve('-tp 2', 'kv_consumer')}", "model.tp: 2 .*, and not given of an"),
        (f"{serve(role='kv_producer')}\n{serve('', 'kv_consumer', 'Qwen/Qwen3-8B')}",
         "model.preset: 'llama-3.1-8b' .* of prefill, 'qwen3-8b' .*: both serve one model"),
        (script(kv_connector_extra_config={"bidirectional_kv_xfer": True}), "bidirectional_kv"),
        (script(kv_connector_extra_config={"kv_lease_duration": 0.5}), "0.5: expected whole sec"),
        (script(kv_load_failure_policy="retry"), "kv_load_failure_policy .*'retry'"),
        (script(kv_conector="x"), "kv_conector: no key of vLLM's"),
        (script("-pp 2", "-pp 2"), "not with prefill and decode apart: no rule was recorded"),
        (script("", "--max-num-sqes 1"), "--max-num-sqes.*--max-num-seqs"),
        (script().replace('"kv_role": "kv_producer", ', "").replace("kv_producer", "kv_consumer"),
         "none of which is to prefill"),
    ],
)  # fmt: skip
def test_what_does_not_belong_together_is_refused_in_one_line(text, told):
    with pytest.raises(InputError, match=told) as problem:
        taken(text)
    assert "\n" not in str(problem.value)


def test_what_sides_share_may_be_given_beside_them():
    text = script("--block-size 32 --max-model-len 8k", "--max-model-len 16k")
    found = taken(text, "cache.block_size=16", "engine.max_model_len=8000")
    assert found.scenario.cache.block_size == 16


def test_leases_are_those_of_the_connector():
    more = {"kv_connector_extra_config": {"kv_lease_duration": 60, "backends": ["UCX"]},
            "kv_load_failure_policy": "recompute", "kv_buffer_device": "cpu"}  # fmt: skip
    found = taken(script(**more))
    assert found.scenario.cluster.kv_lease_us == 60_000_000
    assert found.scenario.cluster.kv_load_failure_policy == "recompute"
    assert any("host's memory" in note for note in found.notes)
    one = serve("", "kv_producer", kv_connector_extra_config={"kv_lease_duration": 20})
    with pytest.raises(InputError, match=r"cluster\.kv_lease_us: 20000000 and 30000000"):
        taken(f"{one}\n{serve('', 'kv_consumer')}")


@pytest.mark.parametrize("model", [LLAMA, "openai/gpt-oss-20b", "Qwen/Qwen3-Next-80B-A3B-Instruct"])
def test_the_link_is_asked_for_with_what_a_usual_one_has(model):
    with pytest.raises(InputError, match=r"cluster\.kv_transfer_bandwidth=N") as problem:
        answer(Question((script("-tp 4", "-tp 4", model=model),), gpu="h100"))
    (rate,) = (part for part in str(problem.value).split("(") if "25 GB/s" in part)
    given = f"cluster.kv_transfer_bandwidth={rate.partition(':')[0]}"
    found = answer(Question((script("-tp 4", "-tp 4", model=model),), gpu="h100",
                            overrides=(given,)))  # fmt: skip
    assert pull_gb_per_s(found.scenario) == pytest.approx(25, rel=0.01)
    with pytest.raises(InputError, match="for each GPU of prefill"):
        answer(Question((script("", "-tp 2"),), gpu="h100"))


def test_keys_of_a_side_may_be_given():
    found = taken(script("", "-tp 2"), "cluster.prefill.gpu_blocks=900",
                  "cluster.decode.gpu_blocks=800")  # fmt: skip
    assert [pool.gpu_blocks for pool in fleet(found.scenario)] == [900, 800]
    assert not any("estimated" in note for note in found.notes)
    assert any(note.startswith("prefill: vLLM does not start") for note in found.notes)


def test_a_log_is_of_one_server(tmp_path):
    log = tmp_path / "vllm.log"
    log.write_text("GPU KV cache size: 987,136 tokens\n")
    with pytest.raises(InputError, match=r"--log: is of one server.*cluster\.decode.gpu_blocks"):
        taken(script(), log=log)


def test_one_side_by_itself_is_refused_and_told_what_to_give():
    with pytest.raises(InputError, match="of a file that starts the servers of both sides"):
        taken(serve(role="kv_producer"))
    text = yaml.safe_dump_all([deployment("a", "kv_producer"), deployment("b", "kv_consumer")])
    with pytest.raises(InputError, match="of a file that starts the servers of both sides"):
        taken(text, container="a")


def test_other_servers_are_still_chosen_from():
    plain = deployment("c", "kv_both")
    plain["spec"]["template"]["spec"]["containers"][0]["args"] = [LLAMA]
    text = yaml.safe_dump_all([deployment("a", "kv_producer"), plain])
    with pytest.raises(InputError, match="2 containers start a server: a/vllm, c/vllm; choose one"):
        taken(text)
    with pytest.raises(InputError, match="starts 2 servers; give the command of one"):
        taken(f"{serve()}\nvllm serve {LLAMA}\n")


def test_what_keeps_more_servers_is_told_of_its_side():
    scaler = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}
    text = yaml.safe_dump_all([deployment("a", "kv_producer"), deployment("b", "kv_consumer"),
                               scaler])  # fmt: skip
    notes = [note for note in taken(text).notes if "HorizontalPodAutoscaler" in note]
    assert [note.partition(":")[0] for note in notes] == ["prefill", "decode"]
    assert "cluster.prefill.instances=N" in notes[0]


def test_defaults_of_a_script_are_put_in():
    text = script(model=f"${{MODEL:-{LLAMA}}}")
    assert any("MODEL" in note for note in taken(text).notes)


def test_files_of_both_sides_are_one_cluster(tmp_path):
    files = {role: tmp_path / f"{role}.sh" for role in ROLES}
    files["prefill"].write_text(serve("-tp 4"))
    files["decode"].write_text(serve())
    names = tuple(map(str, reversed(files.values())))
    found = answer(Question(names, gpu="h100", overrides=(LINK,)))
    assert [pool.role for pool in fleet(found.scenario)] == ["prefill", "decode"]
    assert "-tp 4" in found.text.splitlines()[0]
    with pytest.raises(InputError, match="--container: is of one file"):
        answer(Question(names, gpu="h100", container="decode"))
    files["decode"].write_text(f"vllm serve {LLAMA}")
    with pytest.raises(InputError, match=r"decode\.sh: is no server of prefill and decode apart"):
        answer(Question(names, gpu="h100", overrides=(LINK,)))
    files["decode"].write_text(serve())
    files["prefill"].rename(tmp_path / "one.sh")
    with pytest.raises(InputError, match="which of the 2 servers prefill is not told"):
        answer(Question((str(tmp_path / "one.sh"), names[0]), gpu="h100", overrides=(LINK,)))


def test_a_file_that_is_not_there_is_named(tmp_path):
    (tmp_path / "a.sh").write_text(serve())
    words = tuple(str(tmp_path / name) for name in ("a.sh", "b.sh"))
    with pytest.raises(InputError, match=r"b\.sh: cannot read: No such file"):
        answer(Question(words, gpu="h100", overrides=(LINK,)))


def test_roles_of_a_disaggregated_set_are_counted_in_all_slices():
    def role(name, replicas):
        args = [LLAMA, "--kv-transfer-config", connector(ROLES[name])]
        pod = {"containers": [{"name": "modelserver", "image": IMAGE, "args": args}]}
        template = {"size": 1, "workerTemplate": {"spec": pod}}
        return {"name": name, "spec": {"replicas": replicas, "leaderWorkerTemplate": template}}

    roles = [role("prefill", 4), role("decode", 1)]
    document = {"apiVersion": "disaggregatedset.x-k8s.io/v1", "kind": "DisaggregatedSet",
                "metadata": {"name": "pd"}, "spec": {"slices": 2, "roles": roles}}  # fmt: skip
    found = taken(yaml.safe_dump(document))
    assert cluster(found)["prefill"] == {"instances": 8}
    assert cluster(found)["decode"] == {"instances": 2}
    assert "# replicas, times slices" in found.text
    document["spec"]["slices"] = "two"
    with pytest.raises(InputError, match="slices: 'two': expected a number of servers"):
        taken(yaml.safe_dump(document))


def test_shares_of_drafts_are_of_the_side_that_drafts():
    drafting = """--speculative-config '{"method": "mtp", "num_speculative_tokens": 2}'"""
    with pytest.raises(InputError, match=r"engine\.speculative: not given of prefill, .*--set"):
        taken(script("", drafting), acceptance=(0.5,))
    given = 'engine.speculative={tokens=2, method="eagle", acceptance=0.5}'
    found = taken(script("", drafting), given, acceptance=(0.5,))
    assert found.scenario.engine.drafts == 2
    with pytest.raises(InputError, match="--acceptance: has no effect"):
        taken(script(), acceptance=(0.5,))


OFFLOAD = {
    "kv_connector": "OffloadingConnector",
    "kv_role": "kv_both",
    "kv_connector_extra_config": {"cpu_bytes_to_use": 10**11},
}
NIXL = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
TIER = "cache.link=pcie5-x16"


def several(role, *connectors, **more):
    """Return a line of a script that starts a server with several connectors."""
    table = {
        "kv_connector": "MultiConnector",
        "kv_role": role,
        "kv_connector_extra_config": {"connectors": list(connectors)},
        **more,
    }
    return f"vllm serve {LLAMA} --kv-transfer-config '{json.dumps(table)}' &"


def both(prefill, decode):
    """Return a script of two lines."""
    return f"#!/bin/sh\n{prefill}\n{decode}\nwait\n"


def halved(**more):
    """Return the configuration of a tier of half of the bytes."""
    extra = {"cpu_bytes_to_use": 5 * 10**10, **more}
    return OFFLOAD | {"kv_connector_extra_config": extra}


def tiers(text, *overrides):
    """Return the blocks of the CPU tier of each side."""
    return [pool.cpu_blocks for pool in fleet(taken(text, TIER, *overrides).scenario)]


def test_a_tier_beside_the_link_is_of_the_side_that_has_it():
    prefill = several("kv_producer", NIXL, OFFLOAD)
    decode = several("kv_consumer", NIXL, OFFLOAD)
    assert tiers(both(prefill, decode)) == [47683, 47683]
    assert tiers(both(prefill, serve(role="kv_consumer"))) == [47683, 0]
    assert tiers(both(serve(role="kv_producer"), decode)) == [0, 47683]
    assert tiers(both(prefill, several("kv_consumer", NIXL, halved()))) == [47683, 23841]
    found = taken(both(prefill, serve(role="kv_consumer")), TIER)
    assert cluster(found)["decode"] == {"instances": 1, "cpu_blocks": 0}
    assert tomllib.loads(found.text)["cache"]["offload"] == "vllm"


def test_a_server_is_told_of_its_role_by_either_connector():
    prefill = several("kv_both", NIXL | {"kv_role": "kv_producer"}, OFFLOAD)
    decode = several("kv_both", NIXL | {"kv_role": "kv_consumer"}, halved())
    assert tiers(both(decode, prefill)) == [47683, 23841]


def test_a_prefill_instance_may_ask_its_tier_first():
    prefill = several("kv_producer", OFFLOAD, NIXL)
    assert tiers(both(prefill, several("kv_consumer", NIXL, OFFLOAD))) == [47683, 47683]


LMCACHE = {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}


@pytest.mark.parametrize(
    ("prefill", "decode", "told"),
    [
        (
            several("kv_producer", NIXL, OFFLOAD),
            several("kv_consumer", OFFLOAD, NIXL),
            "OffloadingConnector before NixlConnector: a decode instance would load from its tier",
        ),
        (
            several("kv_producer", NIXL, LMCACHE),
            several("kv_consumer", NIXL),
            "'LMCacheConnectorV1' beside NixlConnector is not simulated; leave it out",
        ),
        (
            several("kv_producer", NIXL, OFFLOAD, OFFLOAD),
            several("kv_consumer", NIXL),
            "two connectors of a kind",
        ),
        (
            several("kv_producer", NIXL | {"kv_rol": 1}),
            several("kv_consumer", NIXL),
            "kv_rol: no key of vLLM's; did you mean 'kv_role'?",
        ),
        (
            several("kv_producer", NIXL, OFFLOAD),
            several("kv_consumer", NIXL, halved(offload_prompt_only=False)),
            "cache.offload_prompt_only: not given of prefill, false",
        ),
        (
            several("kv_producer", NIXL, OFFLOAD),
            several("kv_consumer", {"kv_connector": "NixlConnector"}),
            "kv_role: missing; vLLM takes kv_producer where it prefills",
        ),
        (
            several("kv_producer", NIXL, OFFLOAD, kv_load_failure_policy="recompute"),
            several("kv_consumer", NIXL, OFFLOAD, kv_load_failure_policy="recompute"),
            "with cluster.kv_load_failure_policy = 'recompute' there is only cpu_blocks = 0",
        ),
    ],
)
def test_connectors_that_are_not_simulated_are_refused(prefill, decode, told):
    with pytest.raises(InputError) as caught:
        taken(both(prefill, decode), TIER)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("prefill", "decode", "options", "told"),
    [
        ("kv_both", "kv_both", "", "kv_both"),
        ("kv_both", "kv_consumer", "", "kv_both"),
        ("kv_producer", "kv_both", "", None),
        ("kv_both", "kv_both", "--no-async-scheduling", None),
    ],
)
def test_a_prefill_server_of_both_roles_is_told_where_that_matters(prefill, decode, options, told):
    text = "\n---\n".join(
        yaml.safe_dump(deployment(name, role, replicas=1))
        for name, role in (("prefill", prefill), ("decode", decode))
    )
    found = taken(with_option(text, options) if options else text)
    assert cluster(found).get("prefill_kv_role") == told
    assert found.scenario.cluster.prefill_kv_role == (told or "kv_producer")


def with_option(text, option):
    """Return a manifest in which each server has one more option."""
    documents = list(yaml.safe_load_all(text))
    for each in documents:
        each["spec"]["template"]["spec"]["containers"][0]["args"].append(option)
    return yaml.safe_dump_all(documents)


def test_the_role_of_several_connectors_is_that_beside_them():
    """vLLM's scheduler reads that of all, whatever NixlConnector has."""
    prefill = several("kv_both", NIXL | {"kv_role": "kv_producer"}, OFFLOAD)
    found = taken(both(prefill, several("kv_consumer", NIXL, OFFLOAD)), TIER)
    assert cluster(found)["prefill_kv_role"] == "kv_both"


def servers(*roles, **more):
    """Return a manifest with a server of each of these roles."""
    made = [deployment(f"{role}-{i}".replace("_", "-"), role) for i, role in enumerate(roles)]
    for each, policy in zip(made[1:], more.get("policies", ()), strict=False):
        told = connector("kv_consumer", kv_load_failure_policy=policy)
        each["spec"]["template"]["spec"]["containers"][0]["args"][-1] = told
    return yaml.safe_dump_all(made)


def test_servers_of_a_side_that_differ_in_what_a_sweep_has_once_are_refused():
    text = servers("kv_both", "kv_producer", "kv_consumer")
    text = text.replace("kv-both", "prefill")  # by its name, as its role tells nothing
    with pytest.raises(InputError, match="prefill_kv_role: kv_both and kv_producer, and a"):
        taken(text)
    text = servers(*ROLES.values(), "kv_consumer", policies=["recompute"])
    with pytest.raises(InputError, match="kv_load_failure_policy: fail and recompute, and a sweep"):
        taken(text)


def test_a_server_that_is_told_a_default_has_what_others_have():
    text = servers(*ROLES.values(), "kv_consumer", policies=["fail"])
    assert cluster(taken(text))["kv_load_failure_policy"] == "fail"
