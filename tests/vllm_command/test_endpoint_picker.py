"""The configuration of llm-d's router as the routing of a sweep."""

import itertools
import json
import random
import tomllib

import pytest
import yaml

from kvsweep.config import load_sweep
from kvsweep.errors import InputError
from kvsweep.grid import plan
from kvsweep.vllm_command.one_server import Question
from kvsweep.vllm_command.picker_homes import picker_of
from kvsweep.vllm_command.picker_index import Index
from kvsweep.vllm_command.picker_routing import FEWEST_TOKENS, choice_of
from kvsweep.vllm_command.to_sweep import answer

MODEL = "meta-llama/Llama-3.1-8B"
LINK = "cluster.kv_transfer_bandwidth=0.38"
FILTER, TOKENS = "prefix-cache-affinity-filter", "token-load-scorer"
RULES = "not compared with a run of it"


def config(plugins, profiles=None, version="llm-d.ai/v1", **more):
    """Return a configuration: plugins by type, or as tables; profiles as names and weights."""
    listed = [it if isinstance(it, dict) else {"type": it} for it in plugins]
    found = {"apiVersion": version, "kind": "EndpointPickerConfig", "plugins": listed, **more}
    if profiles is not None:
        found["schedulingProfiles"] = [
            {"name": name, "plugins": [ref if isinstance(ref, dict) else {"pluginRef": ref}
                                       for ref in refs]}
            for name, refs in profiles.items()
        ]  # fmt: skip
    return found


def plugin(kind, name=None, **parameters):
    return {"type": kind, **({"name": name} if name else {}), "parameters": parameters}


def weighed(name, weight):
    return {"pluginRef": name, "weight": weight}


def sticky(**parameters):
    """Return the configuration of llm-d's optimized baseline."""
    plugins = [TOKENS, "inflight-load-producer", plugin(FILTER, **parameters)]
    return config(plugins, {"default": [FILTER, TOKENS]})


def apart(prefill=(FILTER, TOKENS), decode=("active-request-scorer",), decider=None, **parameters):
    """Return a configuration for prefill and decode, as llm-d's guide has it."""
    decider = decider or "always-disagg-pd-decider"
    name = decider if isinstance(decider, str) else decider["type"]
    plugins = [
        decider,
        plugin("disagg-profile-handler", deciders={"prefill": name}),
        "prefill-filter", "decode-filter", "inflight-load-producer", "queue-scorer",
        "prefix-cache-scorer", "kv-cache-utilization-scorer", plugin(FILTER, **parameters), TOKENS,
        "active-request-scorer", "max-score-picker",
    ]  # fmt: skip
    return config(plugins, {
        "prefill": ["prefill-filter", *prefill, "max-score-picker"],
        "decode": ["decode-filter", *decode, "max-score-picker"],
    })  # fmt: skip


def deployment(replicas=4, args=(), name="llm"):
    container = {"name": "vllm", "image": "vllm/vllm-openai:v0.33.0", "args": [MODEL, *args]}
    pod = {"spec": {"containers": [container]}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {"replicas": replicas, "template": pod}}  # fmt: skip


def sides(prefill=2, decode=3):
    """Return manifests of servers of which some prefill and others decode."""
    roles = {"prefill": (prefill, "kv_producer"), "decode": (decode, "kv_consumer")}
    nixl = {name: json.dumps({"kv_connector": "NixlConnector", "kv_role": role})
            for name, (_, role) in roles.items()}  # fmt: skip
    return [
        deployment(count, ["--kv-transfer-config", nixl[name]], name)
        for name, (count, _) in roles.items()
    ]


def config_map(**files):
    data = {key: yaml.safe_dump(told, sort_keys=False) for key, told in files.items()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "epp"}, "data": data}


def values(file=None, **customs):
    """Return values of the router's chart."""
    found = {"pluginsCustomConfig": {key: yaml.safe_dump(it) for key, it in customs.items()}}
    return {"router": {"epp": found | ({"pluginsConfigFile": file} if file else {})}}


@pytest.fixture
def taken(tmp_path):
    def take(*files, overrides=(), gpu="h100", **more):
        """Return what is made of files, each of one document or a list of several."""
        names = []
        for number, told in enumerate(files):
            path = tmp_path / f"{number}.yaml"
            documents = told if isinstance(told, list) else [told]
            path.write_text(told if isinstance(told, str) else yaml.safe_dump_all(documents))
            names.append(str(path))
        return answer(Question(tuple(names), gpu=gpu, overrides=tuple(overrides), **more))

    return take


def cluster(found):
    return tomllib.loads(found.text)["cluster"]


def refused(taken, *files, overrides=()):
    with pytest.raises(InputError) as told:
        taken(*files, overrides=overrides)
    assert "\n" not in str(told.value)
    return str(told.value)


@pytest.mark.parametrize(
    ("parameters", "threshold", "lead"),
    [
        ({}, 0.8, 286_704),
        ({"affinityThreshold": 0.5, "peakPrefillThroughput": 33821}, 0.5, 608_778),
        ({"maxTokensInFlightPenalty": 286720, "maxTTFTPenaltyMs": 0}, 0.8, 286_720),
        ({"maxTokensInFlightPenalty": 6000}, 0.8, 6000),
        ({"maxTTFTPenaltyMs": 0}, 0.8, 0),
        ({"maxTTFTPenaltyMs": 0, "ttftSource": "latencyPredictor"}, 0.8, 0),
        ({"maxTokensInFlightPenalty": 0, "maxTTFTPenaltyMs": 0}, 0.8, 0),
        ({"maxTTFTPenaltyMs": 5000}, 0.8, 79_640),
        ({"maxTTFTPenaltyMs": 0.01}, 0.8, 1),  # 0 would have no end
        ({"affinityThreshold": 1, "maxTTFTPenaltyMs": 1, "peakPrefillThroughput": 1999}, 1.0, 1),
    ],
)
def test_the_affinity_filter_before_token_loads_is_sticky_routing(
    taken, parameters, threshold, lead
):
    found = cluster(taken(deployment(), sticky(**parameters)))
    assert found["routing"] == "sticky"
    assert (found["sticky_threshold"], found["sticky_lead_tokens"]) == (threshold, lead)


def test_the_defaults_are_kvsweeps(taken):
    found = taken(deployment(), sticky()).scenario.cluster
    usual = type(found)()
    assert found.sticky_threshold == usual.sticky_threshold
    assert found.sticky_lead_tokens == usual.sticky_lead_tokens


def test_it_is_told_whose_routing_it_is(taken):
    found = taken(deployment(), sticky())
    assert f": {FILTER}, {TOKENS}" in found.text.partition('routing = "sticky" # ')[2]
    assert any("1.yaml: prefix-cache" in note and "sticky routing" in note for note in found.notes)
    assert any(RULES in note for note in found.notes)


WEIGHTS = [weighed("queue-scorer", 2), weighed("kv-cache-utilization-scorer", 2.0),
           weighed("prefix-cache-scorer", 3)]  # fmt: skip
SCORERS = ["queue-scorer", "kv-cache-utilization-scorer", "prefix-cache-scorer"]
BLEND = {"queue-depth": 2.0, "kv-utilization": 2.0, "prefix-affinity": 3.0}


@pytest.mark.parametrize(
    ("plugins", "refs", "routing", "scorers"),
    [
        (SCORERS, WEIGHTS, "weighted", BLEND),
        (SCORERS, SCORERS, "weighted", dict.fromkeys(BLEND, 1.0)),
        (["precise-prefix-cache-scorer", "queue-scorer", "decode-filter"],
         ["decode-filter", weighed("precise-prefix-cache-scorer", 3.0), "queue-scorer"],
         "weighted", {"precise-prefix": 3.0, "queue-depth": 1.0}),
        ([*SCORERS, "no-hit-lru-scorer"], [*WEIGHTS, weighed("no-hit-lru-scorer", 0)],
         "weighted", BLEND),
        ([*SCORERS, "lora-affinity-scorer"], [*WEIGHTS, "lora-affinity-scorer"], "weighted", BLEND),
        (SCORERS, ["kv-cache-utilization-scorer"], "weighted", {"kv-utilization": 1.0}),
        (SCORERS, ["queue-scorer"], "least-loaded", None),
        (["active-request-scorer"], [weighed("active-request-scorer", 7)], "least-loaded", None),
        (["load-aware-scorer"], ["load-aware-scorer"], "least-loaded", None),
        (["max-score-picker"], ["max-score-picker"], "round-robin", None),
        (["random-picker", "queue-scorer"], ["queue-scorer", "random-picker"],
         "round-robin", None),
    ],
)  # fmt: skip
def test_scorers_are_the_nearest_routing(taken, plugins, refs, routing, scorers):
    found = cluster(taken(deployment(), config(plugins, {"default": refs})))
    assert found["routing"] == routing
    assert found.get("scorers") == scorers


@pytest.mark.parametrize(
    ("refs", "notes"),
    [
        (
            WEIGHTS,
            ["queue-scorer: counts waiting requests", "as old as its last look", "of equals"],
        ),
        (["queue-scorer"], ["queue-scorer: counts waiting requests alone"]),
        (["lora-affinity-scorer"], ["as no adapters are", "llm-d takes any server"]),
        (["random-picker"], ["more even than at random"]),
        ([TOKENS], ["token-load-scorer alone"]),
        (["label-selector-filter", "queue-scorer"], ["labels are not read"]),
        (["precise-prefix-cache-scorer"], ["older routers set the best to 1"]),
    ],
)
def test_what_differs_is_told(taken, refs, notes):
    plugins = [*SCORERS, "lora-affinity-scorer", "random-picker", TOKENS, "label-selector-filter",
               "precise-prefix-cache-scorer"]  # fmt: skip
    found = taken(deployment(), config(plugins, {"default": refs})).notes
    for told in notes:
        assert any(told in note for note in found), told


def test_a_scorer_of_prefixes_may_hear_of_the_caches(taken):
    """What produces its data says which of kvsweep's scorers it is."""
    producer = plugin("precise-prefix-cache-producer", "events")
    by_events = plugin("prefix-cache-scorer", "prefixes", prefixMatchInfoProducerName="events")
    told = config([producer, by_events, "queue-scorer"], {"default": ["prefixes", "queue-scorer"]})
    assert cluster(taken(deployment(), told))["scorers"] == {
        "precise-prefix": 1.0, "queue-depth": 1.0,
    }  # fmt: skip
    tracking = plugin("prefix-cache-scorer", mode="cache_tracking", indexerConfig={})
    told = config([tracking], {"default": ["prefix-cache-scorer"]})
    assert cluster(taken(deployment(), told))["scorers"] == {"precise-prefix": 1.0}


def test_token_load_alone_is_sticky_routing_that_keeps_nothing():
    """With that threshold and lead the fewest tokens are taken wherever the prompt began."""
    random.seed(4)
    threshold, lead = FEWEST_TOKENS
    for _ in range(20_000):
        size, servers = random.choice([1, 16]), random.randint(1, 4)
        prompt = random.randint(1, 4 * size)
        blocks = prompt // size
        loads = [random.randint(0, 3 * size) for _ in range(servers)]
        matched = [random.randint(0, blocks) for _ in range(servers)]
        tokens = [load + prompt - found * size for load, found in zip(loads, matched, strict=True)]
        knows = [blocks > 0 and found / blocks >= threshold for found in matched]
        known = min((load for load, it in zip(loads, knows, strict=True) if it), default=None)
        other = min((load for load, it in zip(loads, knows, strict=True) if not it), default=None)
        keeps = known is not None and (other is None or known - other <= lead)
        kept = [place for place in range(servers) if knows[place] or not keeps]
        if size > 1:
            best = {place for place in range(servers) if tokens[place] == min(tokens)}
            assert {place for place in kept if tokens[place] == min(tokens)} == best
        assert min(tokens[place] for place in kept) == min(tokens)


def test_pools_have_routings_of_their_own(taken):
    found = cluster(taken(sides(), apart(peakPrefillThroughput=33821), overrides=[LINK]))
    assert found["prefill"] == {"instances": 2, "routing": "sticky"}
    assert found["decode"] == {"instances": 3, "routing": "least-loaded"}
    assert "routing" not in found
    assert (found["sticky_threshold"], found["sticky_lead_tokens"]) == (0.8, 608_778)
    assert "pd_uncached_token_threshold" not in found


def test_pools_that_are_routed_alike_are_told_once(taken):
    told = apart(prefill=WEIGHTS, decode=WEIGHTS)
    found = cluster(taken(sides(), told, overrides=[LINK]))
    assert (found["routing"], found["scorers"]) == ("weighted", BLEND)
    assert found["prefill"] == {"instances": 2}


def test_pools_have_scorers_of_their_own(taken):
    decode = ["active-request-scorer"]
    found = cluster(taken(sides(), apart(WEIGHTS, decode), overrides=[LINK]))
    assert found["prefill"] == {"instances": 2, "routing": "weighted", "scorers": BLEND}
    assert found["decode"] == {"instances": 3, "routing": "least-loaded"}


@pytest.mark.parametrize(("prefill", "decode"), [(1, 3), (2, 1), (1, 1)])
def test_a_pool_of_one_is_not_routed(taken, prefill, decode):
    found = cluster(taken(sides(prefill, decode), apart(), overrides=[LINK]))
    assert found["prefill"] == {"instances": prefill}
    assert found["decode"] == {"instances": decode}
    routing = {(1, 3): "least-loaded", (2, 1): "sticky", (1, 1): None}[prefill, decode]
    assert found.get("routing") == routing
    assert ("sticky_threshold" in found) == (routing == "sticky")


@pytest.mark.parametrize(
    ("decider", "tokens"),
    [
        ("always-disagg-pd-decider", None),
        (plugin("prefix-based-pd-decider", nonCachedTokens=16), 15),
        (plugin("prefix-based-pd-decider", nonCachedTokens=1), 0),
        (plugin("prefix-based-pd-decider", nonCachedTokens=512, promptTokens=512), 511),
    ],
)
def test_a_decider_says_which_prompts_stay(taken, decider, tokens):
    """llm-d's sends N uncached tokens and more away, kvsweep's more than N."""
    found = taken(sides(1, 1), apart(decider=decider), overrides=[LINK])
    assert cluster(found).get("pd_uncached_token_threshold") == tokens
    assert not any("a decider that lets short ones stay" in note for note in found.notes)


@pytest.mark.parametrize(
    ("handler", "more", "tokens"),
    [
        (plugin("pd-profile-handler", threshold=0, hashBlockSize=5), [], None),
        (plugin("pd-profile-handler"), [], None),
        (plugin("pd-profile-handler"), [plugin("prefix-based-pd-decider", nonCachedTokens=9)], 8),
        (plugin("pd-profile-handler", deciderPluginName="d", primaryPort=8000),
         [plugin("prefix-based-pd-decider", "d", nonCachedTokens=9)], 8),
        (plugin("disagg-profile-handler", deciderPluginName="always-disagg-pd-decider"),
         ["always-disagg-pd-decider"], None),
        (plugin("disagg-profile-handler", stageOrder="prefill-first"), [], None),
    ],
)  # fmt: skip
def test_older_handlers_say_it_otherwise(taken, handler, more, tokens):
    refs = ["random-picker"]
    told = config([handler, *more, "random-picker"], {"prefill": refs, "decode": refs})
    found = cluster(taken(sides(), told, overrides=[LINK]))
    assert found["routing"] == "round-robin"
    assert found.get("pd_uncached_token_threshold") == tokens


def test_profiles_may_have_other_names(taken):
    handler = plugin("disagg-profile-handler", profiles={"prefill": "p", "decode": "d"},
                     deciders={"prefill": "always-disagg-pd-decider"})  # fmt: skip
    profiles = {"p": SCORERS, "d": ["queue-scorer"], "prefill": ["no-hit-lru-scorer"]}
    plugins = [handler, "always-disagg-pd-decider", *SCORERS, "no-hit-lru-scorer"]
    found = cluster(taken(sides(), config(plugins, profiles), overrides=[LINK]))
    assert found["prefill"]["routing"] == "weighted"
    assert found["decode"]["routing"] == "least-loaded"


def test_both_pools_may_keep_requests_alike_only(taken):
    keep = (FILTER, TOKENS)
    assert cluster(taken(sides(), apart(keep, keep), overrides=[LINK]))["routing"] == "sticky"
    told = refused(taken, sides(), apart(keep, [TOKENS]), overrides=[LINK])
    assert "prefill and decode differ in how long they keep requests" in told
    given = ["cluster.sticky_threshold=0.5", "cluster.sticky_lead_tokens=7"]
    found = cluster(taken(sides(), apart(keep, [TOKENS]), overrides=[LINK, *given]))
    assert (found["sticky_threshold"], found["sticky_lead_tokens"]) == (0.5, 7)


OWN = config(["active-request-scorer"], {"default": ["active-request-scorer"]})
OTHER = config(["random-picker"], {"default": ["random-picker"]})


@pytest.mark.parametrize(
    "files",
    [
        [deployment(), OWN],
        [OWN, deployment()],
        [[deployment(), OWN]],
        [[deployment(), config_map(**{"epp.yaml": OWN})]],
        [deployment(), config_map(**{"epp.yaml": OWN})],
        [deployment(), values("epp.yaml", **{"epp.yaml": OWN})],
        [deployment(), values("epp.yaml", **{"epp.yaml": OWN, "other.yaml": OTHER})],
        [deployment(), values(None, **{"epp.yaml": OWN})],
        [deployment(), values("e", e=OWN) | {"extraServicePorts": [], "tolerations": {}}],
        [deployment(), {"llm-d-router": values("epp.yaml", **{"epp.yaml": OWN})}],
        [deployment(), {"inferenceExtension": values("e", e=OWN)["router"]["epp"]}],
        [deployment(), {"inferencePool": values("e", e=OWN)["router"]["epp"]}],
        [deployment(), {"router": {"epp": {"pluginsConfig": OWN}}}],
        [deployment(), {"router": {"epp": {"pluginsConfig": {"plugins": OWN["plugins"]}}}}],
        [deployment(), OWN, {**OWN, "apiVersion": "llm-d.ai/v1alpha1"}],
        [deployment(), json.dumps(OWN)],
        [deployment(), "# of the router\n" + yaml.safe_dump(OWN)],
        [deployment(), {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
                        "spec": {"values": values("e", e=OWN)}}],
        [deployment(), {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "spec": {
            "source": {"helm": {"values": yaml.safe_dump(values("e", e=OWN))}}}}],
        [deployment(), {"apiVersion": "v1", "kind": "List",
                        "items": [config_map(**{"epp.yaml": OWN})]}],
    ],
)  # fmt: skip
def test_it_is_found_wherever_it_is(taken, files):
    assert cluster(taken(*files))["routing"] == "least-loaded"


def epp(*args):
    """Return the router's own Deployment, as its chart makes it."""
    container = {"name": "epp", "image": "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.9.0",
                 "args": ["--pool-name", "llm", *args]}  # fmt: skip
    pod = {"spec": {"containers": [container]}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "epp"},
            "spec": {"replicas": 1, "template": pod}}  # fmt: skip


@pytest.mark.parametrize(
    "args",
    [["--config-file", "/config/epp.yaml"], ["--config-file=/config/epp.yaml"],
     ["-configFile", "/config/epp.yaml"]],
)  # fmt: skip
def test_the_routers_arguments_say_which_of_several_holds(taken, args):
    """As `helm template` of its chart has them all."""
    several = config_map(**{"default-plugins.yaml": OTHER, "epp.yaml": OWN})
    assert cluster(taken(deployment(), [several, epp(*args)]))["routing"] == "least-loaded"
    assert cluster(taken([deployment(), several, epp(*args)]))["routing"] == "least-loaded"
    told = refused(taken, deployment(), several)
    assert "another EndpointPickerConfig than" in told


def test_the_routers_arguments_may_have_all_of_it(taken):
    text = yaml.safe_dump(OWN)
    found = taken([deployment(), epp("--config-text", text)])
    assert cluster(found)["routing"] == "least-loaded"


def test_the_last_values_say_which_file_holds(taken):
    """As with `helm -f`."""
    base = {"router": {"epp": {"replicas": 1, "pluginsConfigFile": "default-plugins.yaml"}}}
    own = values("epp.yaml", **{"epp.yaml": OWN})
    assert cluster(taken(deployment(), base, own))["routing"] == "least-loaded"
    found = cluster(taken(deployment(), base))
    assert (found["routing"], found["scorers"]) == ("weighted", BLEND)
    base["router"]["latencyPredictor"] = {"enabled": True}
    assert "it is by predicted latencies" in refused(taken, deployment(), base)
    own["router"]["epp"]["pluginsConfigFile"] = "ep.yaml"
    told = refused(taken, deployment(), own)
    assert "no file of pluginsCustomConfig; did you mean 'epp.yaml'?" in told


def test_two_different_ones_are_refused(taken):
    told = refused(taken, deployment(), OWN, OTHER)
    assert "2.yaml: another EndpointPickerConfig than " in told
    assert "1.yaml" in told
    assert told.endswith("--set cluster.routing=... is taken instead of the router's file")
    found = taken(deployment(), OWN, OTHER, overrides=["cluster.routing=sticky"])
    assert cluster(found)["routing"] == "sticky"
    both = [
        deployment(2, name="a"),
        config_map(a=OWN),
        deployment(3, name="b"),
        config_map(b=OTHER),
    ]
    given = {"overrides": ["cluster.routing=sticky"], "container": "b"}
    assert cluster(taken(both, **given)) == {"instances": 3, "routing": "sticky"}


@pytest.mark.parametrize("alone", [OWN, config_map(e=OWN), values("e", e=OWN), [OWN, epp()]])
def test_a_router_needs_servers(taken, alone):
    for files in ([alone], [alone, alone]):
        told = refused(taken, *files)
        assert "alone, and no server: give the servers' file beside it" in told


def test_of_one_server_it_is_told_that_nothing_is_decided(taken):
    """Whatever it is, also what could not be simulated."""
    told = config(["no-hit-lru-scorer"], {"default": ["no-hit-lru-scorer"]})
    found = taken(deployment(1), told)
    assert "cluster" not in tomllib.loads(found.text) or "routing" not in cluster(found)
    assert any("decides nothing where there is one server" in note for note in found.notes)
    found = taken(deployment(1), OWN, overrides=["cluster.instances=3"])
    assert cluster(found) == {"instances": 3, "routing": "least-loaded"}
    assert "cluster.instances" in refused(
        taken, deployment(1), OWN, overrides=["cluster.instances=x"]
    )


def test_set_wins(taken):
    for routing in ("round-robin", "sticky", "weighted"):
        given = [f"cluster.routing={routing}"]
        found = taken(deployment(), sticky(maxTTFTPenaltyMs=7), overrides=given)
        assert cluster(found) == {"instances": 4, "routing": routing}
        assert any("not read, as cluster.routing is given" in note for note in found.notes)
    found = cluster(taken(deployment(), sticky(), overrides=["cluster.sticky_lead_tokens=5"]))
    assert (found["sticky_threshold"], found["sticky_lead_tokens"]) == (0.8, 5)
    blend = config(SCORERS, {"default": WEIGHTS})
    found = cluster(taken(deployment(), blend, overrides=["cluster.scorers.queue-depth=9"]))
    assert found["scorers"] == {**BLEND, "queue-depth": 9}


def test_set_wins_in_a_pool(taken):
    given = [LINK, "cluster.decode.routing=round-robin"]
    found = cluster(taken(sides(), apart(), overrides=given))
    assert found["routing"] == "sticky"
    assert found["decode"] == {"instances": 3, "routing": "round-robin"}
    decider = plugin("prefix-based-pd-decider", nonCachedTokens=0)
    threshold = "cluster.pd_uncached_token_threshold=64"
    found = cluster(taken(sides(), apart(decider=decider), overrides=[LINK, threshold]))
    assert found["pd_uncached_token_threshold"] == 64


def one(refs, *plugins):
    return config(list(plugins) or refs, {"default": refs})


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (one(["no-hit-lru-scorer"]), "no-hit-lru-scorer: kvsweep has nothing like it"),
        (one([*WEIGHTS, "no-hit-lru-scorer"], *SCORERS, "no-hit-lru-scorer"), "no-hit-lru-scorer:"),
        (one(["lru"], plugin("no-hit-lru-scorer", "lru")), "lru: kvsweep has nothing like no-hit-"),
        (one(["session-affinity-scorer", "queue-scorer"]), "session-affinity-scorer: kvsweep has"),
        (one(["session-affinity-filter", "queue-scorer"]), "session-affinity-filter: kvsweep has"),
        (one(["slo-headroom-tier-filter"]), "slo-headroom-tier-filter: kvsweep has nothing"),
        (one(["mine"], plugin("my-scorer", "mine")), "mine: kvsweep has nothing like my-scorer"),
        (one(["queue-scorer", "active-request-scorer"]),
         "active-request-scorer: kvsweep has nothing like it beside other scorers"),
        (one([TOKENS, "queue-scorer"]), f"{TOKENS}: kvsweep has nothing like it beside"),
        (one(["queue-scorer", "weighted-random-picker"]), "weighted-random-picker: draws by scor"),
        (one([FILTER, TOKENS, "random-picker"]), "random-picker: draws among what prefix-cache"),
        (one([FILTER]), f"{FILTER}: with no scorer: sticky routing has {TOKENS} after it"),
        (one([FILTER, "active-request-scorer"]), "with active-request-scorer: sticky routing has"),
        (one([FILTER, TOKENS, "prefix-cache-scorer"]), "with token-load-scorer, prefix-cache-sc"),
        (one(["a", "b", TOKENS], plugin(FILTER, "a"), plugin(FILTER, "b"), TOKENS),
         f"b: a second {FILTER}, and sticky routing has one"),
        (one(["a", "b"], plugin("prefix-cache-scorer", "a"), plugin("prefix-cache-scorer", "b")),
         "b: a second scorer that is prefix-affinity in kvsweep"),
        (sticky(explorationProbability=0.01), "explorationProbability: sticky routing does not"),
        (sticky(ttftSource="latencyPredictor"), "ttftSource: 'latencyPredictor': only prefillT"),
        (sticky(maxTokensInFlightPenalty=9, maxTTFTPenaltyMs=5000), "maxTTFTPenaltyMs: is of pre"),
        (sticky(peakPrefillThroughput=0), "peakPrefillThroughput: 0: expected more than 0, or"),
        (sticky(prefillCalibrationFile="/etc/c.json"), "prefillCalibrationFile: is of the clust"),
        (sticky(affinityTreshold=0.8),
         "affinityTreshold: no parameter of prefix-cache-affinity-filter; did you mean 'affinityT"),
        (sticky(affinityThreshold="0.8"), "affinityThreshold: '0.8': expected a number, 0 or mor"),
        (sticky(affinityThreshold=1.5), "affinityThreshold: 1.5: expected a number, 0 or more, a"),
        (sticky(maxTTFTPenaltyMs=-1), "maxTTFTPenaltyMs: -1: expected a number, 0 or more"),
        (sticky(maxTTFTPenaltyMs=True), "maxTTFTPenaltyMs: true: expected a number"),
        (sticky(peakPrefillThroughput=float("inf")), "peakPrefillThroughput: inf: expected a numb"),
        (sticky(prefixMatchInfoProducerName="x"), f"{FILTER}: 'x': no plugin of this name"),
        (one(["active-request-scorer"], plugin("active-request-scorer", idleThreshold=2)),
         "idleThreshold: takes servers for idle that are not"),
        (one(["active-request-scorer"], plugin("active-request-scorer", maxBusyScore=0)),
         "maxBusyScore: 0: tells no busy servers apart"),
        (one(["prefix-cache-scorer"], plugin("prefix-cache-scorer", prefixLengthWeight=0.5)),
         "prefixLengthWeight: lengths of prefixes, beside their share, are not scored"),
        (one(["queue-scorer"], plugin("queue-scorer", threshold=3)), "threshold: no parameter of"),
        (one([weighed("queue-scorer", -2)], "queue-scorer"), "weight: -2: expected a number, 0 or"),
        (one([weighed("queue-scorer", "2")], "queue-scorer"), "weight: '2': expected a number"),
        (one([weighed("queue-scorer", True)], "queue-scorer"), "weight: true: expected a number"),
        (one(["queue-scorrer"], "queue-scorer"),
         "profile default: pluginRef: 'queue-scorrer': no plugin of this name; did you mean 'queu"),
        (one(["queue-scorrer"]), "type: 'queue-scorrer': no plugin of llm-d's router; did you m"),
        (config(["disag-profile-handler", "queue-scorer"], {"a": ["queue-scorer"]}),
         "type: 'disag-profile-handler': no plugin of llm-d's router; did you mean 'disagg-prof"),
        (config(["queue-scorer"], {"a": ["queue-scorer"], "b": ["queue-scorer"]}),
         "schedulingProfiles: 2 profiles, and no handler that decides between them"),
        (config(["queue-scorer", "header-phase-profile-handler"], {"a": ["queue-scorer"]}),
         "header-phase-profile-handler: decides by what kvsweep does not know"),
        (apart(), "is for servers of prefill and decode apart, and those given are of one kind"),
    ],
)  # fmt: skip
def test_what_kvsweep_has_not_is_refused_with_what_may_be_given_instead(taken, told, message):
    text = refused(taken, deployment(), told)
    assert message in text
    assert "1.yaml: " in text
    if text.endswith("; correct it, or leave the router's file out"):
        return
    assert "; --set cluster.routing=... is taken instead" in text
    found = taken(deployment(), told, overrides=["cluster.routing=round-robin"])
    assert cluster(found)["routing"] == "round-robin"


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (apart(decider=plugin("prefix-based-pd-decider", nonCachedTokens=0)),
         "nonCachedTokens: 0: none is prefilled apart"),
        (apart(decider=plugin("prefix-based-pd-decider", nonCachedTokens=4, promptTokens=9)),
         "promptTokens: lets more stay than nonCachedTokens"),
        (apart(decider=plugin("prefix-based-pd-decider", nonCachedToken=4)),
         "nonCachedToken: no parameter of prefix-based-pd-decider; did you mean 'nonCachedTokens'"),
        (apart(decider=plugin("prefix-based-pd-decider", nonCachedTokens=1.5)),
         "nonCachedTokens: 1.5: expected a whole number"),
        (apart(decider=plugin("prefix-based-pd-decider", nonCachedTokens=-1)),
         "nonCachedTokens: -1: expected a number, 0 or more"),
        (apart(decider=plugin("my-decider")), "my-decider: no decider that kvsweep knows"),
        (config([plugin("disagg-profile-handler")], {"prefill": [], "decode": []}),
         "disagg-profile-handler: no decider, so none is prefilled apart"),
        (config([plugin("disagg-profile-handler", deciders={"prefill": "x"})], {"decode": []}),
         "disagg-profile-handler: 'x': no plugin of this name"),
        (config([plugin("pd-profile-handler", threshold=10)], {"prefill": [], "decode": []}),
         "pd-profile-handler: threshold: counts characters of a prompt, not tokens"),
        (config([plugin("pd-profile-handler")], {"prefil": [], "decode": []}),
         "pd-profile-handler: no profile is called prefill"),
        (config(["pd-profile-handler", "disagg-profile-handler"], {"a": []}),
         "disagg-profile-handler: is a handler beside pd-profile-handler"),
        (OWN, "schedulingProfiles: is for servers of one kind, and those given prefill and decode"),
    ],
)  # fmt: skip
def test_what_a_decider_does_not_tell_is_refused(taken, told, message):
    text = refused(taken, sides(), told, overrides=[LINK])
    assert message in text
    assert "is taken instead" in text
    given = ["cluster.routing=sticky", "cluster.pd_uncached_token_threshold=9"]
    found = cluster(taken(sides(), told, overrides=[LINK, *given]))
    assert (found["routing"], found["pd_uncached_token_threshold"]) == ("sticky", 9)


def test_what_is_no_configuration_is_refused(taken):
    for wrong, message in (
        ({**OWN, "schedulingProfile": []}, "schedulingProfile: no key of an EndpointPickerConfig"),
        ({**OWN, "apiVersion": "v2"}, "apiVersion: 'v2': read are inference.networking.x-k8s.io"),
        ({**OWN, "plugins": None}, "plugins: expected a list of tables, got null"),
        ({**OWN, "plugins": ["queue-scorer"]}, "plugins: expected a list of tables, got other"),
        ({**OWN, "plugins": [{"name": "a"}]}, "plugins: type: null: expected a name"),
        ({**OWN, "plugins": [{"type": "a", "parameter": {}}]}, "parameter: no key of an Endpoint"),
        ({**OWN, "plugins": [{"type": "a", "parameters": []}]}, "a: parameters: expected a table"),
        ({**OWN, "plugins": [{"type": "a"}, {"type": "a"}]}, "plugins: a: is given twice"),
        ({**OWN, "plugins": [{"type": "a", "name": 3}]}, "plugins: name: 3: expected a name"),
        ({**OWN, "featureGates": "flowControl"}, "featureGates: expected a list"),
        ({**OWN, "schedulingProfiles": {}}, "schedulingProfiles: expected a list of tables"),
        ({**OWN, "schedulingProfiles": [{"plugins": []}]}, "schedulingProfiles: name: null"),
        ({**OWN, "schedulingProfiles": [{"name": "a", "plugins": []}] * 2}, "a: is given twice"),
        ({**OWN, "schedulingProfiles": [{"name": "a", "plugin": []}]}, "profile a: plugin: no key"),
        ("kind: EndpointPickerConfig\nplugins: [\n", "1.yaml: line 3: no YAML"),
        ("kind: EndpointPickerConfig\nplugins: []\nplugins: []\n", "plugins: is given twice"),
        ({"router": {"pluginsConfigFile": 3}}, "pluginsConfigFile: 3: expected the name of a"),
    ):
        assert message in refused(taken, deployment(), wrong), message


def test_without_profiles_all_plugins_are_in_one(taken):
    """As the router has it."""
    found = taken(deployment(), config([*SCORERS, "metrics-data-source"]))
    assert cluster(found)["scorers"] == dict.fromkeys(BLEND, 1.0)


def test_queues_and_refusals_of_the_router_are_told(taken):
    told = config(["queue-scorer", "latency-slo-admitter"], {"default": ["queue-scorer"]},
                  featureGates=["flowControl"])  # fmt: skip
    notes = " ".join(taken(deployment(), told).notes)
    assert "flowControl: the router lets none wait in kvsweep" in notes
    assert "latency-slo-admitter: turns requests away" in notes


@pytest.mark.parametrize(
    ("producer", "blocks"),
    [
        (None, 4000 * 4),  # blocks of 64 tokens, of which there are as many as the cache's
        ({"maxPrefixTokensToMatch": 40960}, 4000 * 4),
        ({"autoTune": False, "lruCapacityPerServer": 10_000}, 10_000 * 4),
        ({"autoTune": False, "lruCapacityPerServer": 10_000, "blockSizeTokens": 128}, 10_000 * 8),
        ({"autoTune": False}, 31_250 * 4),
    ],
)
def test_the_index_has_as_many_blocks_as_the_routers(taken, producer, blocks):
    told = sticky()
    if producer is not None:
        told["plugins"].append(plugin("approx-prefix-cache-producer", **producer))
    found = taken(deployment(), told, overrides=["cache.gpu_blocks=4000"])
    assert cluster(found)["router_index_blocks"] == blocks


def test_the_index_of_caches_events_has_as_many_blocks_as_they(taken):
    producer = "precise-prefix-cache-producer"
    told = sticky(prefixMatchInfoProducerName=producer)
    told["plugins"].append({"type": producer})
    found = taken(deployment(), told, overrides=["cache.gpu_blocks=4000"])
    assert cluster(found)["router_index_blocks"] == 4000
    assert any("hears of what caches evict" in note for note in found.notes)
    found = taken(deployment(), OWN, overrides=["cache.gpu_blocks=4000"])
    assert "router_index_blocks" not in cluster(found)
    given = ["cluster.router_index_blocks=77"]
    assert cluster(taken(deployment(), sticky(), overrides=given))["router_index_blocks"] == 77


def test_an_index_of_large_blocks():
    assert Index().blocks(100, 128) == 100
    assert Index(entries=1, unit=64).blocks(9, 128) == 1
    assert Index(unit=0).blocks(2**28, 16) == 2**28


def test_llm_ds_chart_is_routed_as_its_router_says(taken):
    about = {"name": "vllm", "image": "ghcr.io/llm-d/llm-d:v1", "modelCommand": "vllmServe"}
    service = {"modelArtifacts": {"name": MODEL, "uri": f"hf://{MODEL}"},
               "decode": {"replicas": 3, "containers": [about]}}  # fmt: skip
    found = taken(service)
    assert any("llm-d's scheduler is not read: give its" in note for note in found.notes)
    assert cluster(found)["routing"] == "least-loaded"
    found = taken(service, values("e", e=sticky()))
    assert not any("llm-d's scheduler is not read" in note for note in found.notes)
    assert cluster(found)["routing"] == "sticky"
    assert cluster(taken([service | values("e", e=sticky())]))["routing"] == "sticky"


def test_one_of_several_servers_may_be_chosen_beside_a_router(taken):
    both = [deployment(2, name="a"), deployment(3, name="b")]
    assert cluster(taken(both, OWN, container="b"))["instances"] == 3
    assert "choose one: --container NAME" in refused(taken, both, OWN)


def test_a_configmap_that_was_applied_is_read_once(taken):
    """`kubectl get` has it in an annotation too."""
    told = config_map(**{"epp.yaml": OWN})
    applied = json.dumps(config_map(**{"epp.yaml": OTHER}))
    told["metadata"]["annotations"] = {
        "kubectl.kubernetes.io/last-applied-configuration": applied,
    }
    assert cluster(taken(deployment(), told))["routing"] == "least-loaded"


def test_a_commented_configuration_is_none(taken):
    text = yaml.safe_dump(deployment()) + "# kind: EndpointPickerConfig\n# pluginsConfigFile: x\n"
    assert cluster(taken(text))["routing"] == "round-robin"
    script = f"#!/bin/sh\n# kind: EndpointPickerConfig\nvllm serve {MODEL}\n"
    assert "cluster" not in tomllib.loads(taken(script).text)


CASES = {
    "sticky": (deployment(), sticky()),
    "blend": (deployment(), one(WEIGHTS, *SCORERS)),
    "precise": (deployment(), one(["precise-prefix-cache-scorer"])),
    "both": (deployment(), one(["precise-prefix-cache-scorer", "queue-scorer"])),
    "load": (deployment(), one([TOKENS])),
    "one": (deployment(1), sticky()),
    "pools": (sides(), apart(decider=plugin("prefix-based-pd-decider", nonCachedTokens=16))),
    "weights": (sides(), apart(WEIGHTS, [FILTER, TOKENS])),
    "small": (sides(1, 2), apart(WEIGHTS, [FILTER, TOKENS])),
}


@pytest.mark.parametrize(("name", "caches"), list(itertools.product(CASES, (True, False))))
def test_the_file_is_a_sweep(taken, tmp_path, name, caches):
    """It loads, validates, and has the scenario that was told."""
    files = CASES[name]
    trace = tmp_path / "t.csv"
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,100,5\n1,200,5\n")
    given = [LINK] if isinstance(files[0], list) else []
    given += [] if caches else ["engine.enable_prefix_caching=false"]
    found = taken(*files, overrides=given, trace=str(trace), folder=tmp_path)
    (tmp_path / "s.toml").write_text(found.text)
    sweep = load_sweep(tmp_path / "s.toml")
    assert plan(sweep).cells == 1


def test_configurations_are_read_without_servers():
    told = picker_of([("epp.yaml", yaml.safe_dump(sticky()))])
    assert told is not None
    assert told.where == "epp.yaml"
    assert choice_of(told, "default").routing == "sticky"
    assert picker_of([("s.sh", "vllm serve m")]) is None


def test_caches_that_are_off_tell_a_router_nothing(taken):
    """All score 0 by them, so the others decide, or none."""
    off = ["engine.enable_prefix_caching=false"]
    assert cluster(taken(*CASES["precise"], overrides=off))["routing"] == "round-robin"
    assert cluster(taken(*CASES["both"], overrides=off))["scorers"] == {"queue-depth": 1.0}
    server = deployment(4, ["--no-enable-prefix-caching"])
    found = taken(server, CASES["precise"][1])
    assert cluster(found)["routing"] == "round-robin"
    assert any("tells nothing without prefix caching" in note for note in found.notes)


def test_a_file_that_is_neither_servers_nor_a_router_is_the_one_that_is_named(taken):
    """It was the other one, of which one only is taken."""
    text = refused(taken, deployment(), {**OWN, "kind": "EndpointPickerConfg"})
    assert "1.yaml: no command that starts vLLM" in text
    text = refused(taken, deployment(), deployment(), OWN)
    assert "0.yaml: is no server of prefill and decode apart" in text
    assert text.endswith("several files are taken: give one, and llm-d's router if you like")


def test_a_kind_whose_servers_are_not_told_says_so_beside_a_router(taken):
    spec = {"scheduler": {"config": {"inline": OWN}}}
    inline = {"apiVersion": "serving.kserve.io/v1alpha1", "kind": "LLMInferenceService",
              "metadata": {"name": "llm"}, "spec": spec}  # fmt: skip
    assert "LLMInferenceService: templates in the cluster" in refused(taken, inline)


def test_sides_in_files_of_their_own_have_a_router_beside_them(taken):
    prefill, decode = sides()
    found = cluster(taken(prefill, decode, values("e", e=apart()), overrides=[LINK]))
    assert found["prefill"] == {"instances": 2, "routing": "sticky"}
    assert found["decode"] == {"instances": 3, "routing": "least-loaded"}


def test_the_routers_own_renderer_is_no_server(taken):
    """Its chart starts one beside it: `vllm launch render`."""
    router = epp("--config-file", "/config/e")
    router["spec"]["template"]["spec"]["containers"].append(
        {"name": "vllm-render", "image": "vllm/vllm-openai-cpu:v0.19.1",
         "command": ["vllm", "launch", "render"], "args": [MODEL, "--port=8000"]}
    )  # fmt: skip
    for files in (
        [deployment(), [config_map(e=OWN), router]],
        [[deployment(), config_map(e=OWN), router]],
    ):
        assert cluster(taken(*files))["routing"] == "least-loaded"


def test_what_the_router_counts_and_knows_otherwise(taken):
    told = sticky()
    told["plugins"][1] = plugin("inflight-load-producer", addEstimatedOutputTokens=True)
    text = refused(taken, deployment(), told)
    assert "inflight-load-producer: addEstimatedOutputTokens: tokens of answers are no" in text
    told = sticky()
    told["plugins"] += [
        plugin("approx-prefix-cache-producer", maxPrefixTokensToMatch=4096), {"type": "x-producer"},
    ]  # fmt: skip
    notes = taken(deployment(), told).notes
    assert any("knows the first 4,096 tokens of a prompt" in note for note in notes)
    assert any("not known here, and in no profile: x-producer" in note for note in notes)
    assert not any("knows the first" in note for note in taken(deployment(), sticky()).notes)


@pytest.mark.parametrize(
    ("servers", "given", "told"),
    [
        (deployment(), ["cluster.instances=1"], {"instances": 1}),
        (sides(2, 1), [LINK, "cluster.prefill.routing=sticky"],
         {"prefill": {"instances": 2, "routing": "sticky"}, "decode": {"instances": 1}}),
        (sides(), [LINK, "cluster.prefill.instances=1", "cluster.decode.instances=1"],
         {"prefill": {"instances": 1}, "decode": {"instances": 1}}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("router", [None, OWN, apart()])
def test_a_routing_that_decides_nothing_is_left_out(taken, tmp_path, servers, given, told, router):
    """With --set there may be one server, or pools with their own; the file was refused."""
    if router is not None and (router is OWN) == isinstance(servers, list):
        router = None
    files = [servers] if router is None else [servers, router]
    (tmp_path / "t.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,100,5\n1,200,5\n")
    trace = str(tmp_path / "t.csv")
    found = taken(*files, overrides=given, trace=trace, folder=tmp_path)
    (tmp_path / "s.toml").write_text(found.text)
    load_sweep(tmp_path / "s.toml")
    rest = ("kv_lease_us", "kv_transfer_bandwidth")
    assert {key: it for key, it in cluster(found).items() if key not in rest} == told


def test_scorers_without_an_index_need_none(taken):
    blend = config(SCORERS, {"default": WEIGHTS})
    found = cluster(taken(deployment(), blend, overrides=["cluster.scorers={queue-depth=1}"]))
    assert found == {"instances": 4, "routing": "weighted", "scorers": {"queue-depth": 1}}


def test_values_without_a_configuration_are_not_left_out_in_silence(taken):
    text = refused(taken, deployment(), {"router": {"epp": {"pluginsCustomConfig": {}}}})
    assert "1.yaml: has a key of llm-d's router, and no configuration" in text
