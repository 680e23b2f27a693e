"""Plugins of llm-d's router, by what they are to a simulation, and the parameters that they take.

Names and parameters are those of llm-d-router (066c20ea, and what its registry has at 024aa2d9), of
llm-d-inference-scheduler before it, and of the Gateway API's endpoint picker.
"""

from __future__ import annotations

AFFINITY = "prefix-cache-affinity-filter"
TOKEN_LOAD = "token-load-scorer"
ACTIVE = "active-request-scorer"
PREFIX = "prefix-cache-scorer"
PRECISE = "precise-prefix-cache-scorer"
QUEUE = "queue-scorer"
APPROXIMATE = "approx-prefix-cache-producer"
DEFAULT_DECIDER = "prefix-based-pd-decider"

SCORES = {
    PREFIX: "prefix-affinity",
    PRECISE: "precise-prefix",
    QUEUE: "queue-depth",
    "kv-cache-utilization-scorer": "kv-utilization",
    "kv-cache-scorer": "kv-utilization",
}
"""Scorers that kvsweep has, or that are near to its own."""

BY_LOAD = (QUEUE, ACTIVE, "load-aware-scorer")
"""Those that by themselves send to the fewest requests, of whichever kind."""

ALIKE = ("lora-affinity-scorer",)
"""Those that score all servers alike where no adapters are served."""

OTHER_SCORERS = (
    "context-length-aware", "endpoint-attribute-scorer", "header-label-affinity-scorer",
    "latency-scorer", "lora-load-state-scorer", "mm-embeddings-cache-affinity-scorer",
    "no-hit-lru-scorer", "program-aware-scorer", "running-requests-size-scorer",
    "session-affinity-scorer", "topology-affinity-scorer",
)  # fmt: skip
"""Those that kvsweep has not."""

OF_ROLES = ("decode-filter", "prefill-filter", "encode-filter")
BY_LABEL = ("by-label", "by-label-selector", "label-selector-filter")
"""Filters by what servers are labelled with."""

OTHER_FILTERS = (
    "endpoint-attribute-filter", "header-based-testing-filter", "no-hit-lru-filter",
    "session-affinity-filter", "slo-headroom-tier-filter", "topology-affinity-filter",
    "utilization-filter",
)  # fmt: skip

BEST, ANY, BY_CHANCE = "max-score-picker", "random-picker", "weighted-random-picker"
PICKERS = (BEST, ANY, BY_CHANCE)

SINGLE = ("single-profile-handler", "data-parallel-profile-handler")
APART = ("disagg-profile-handler", "pd-profile-handler")
OTHER_HANDLERS = ("header-profile-handler", "pd-slo-profile-handler")
DECIDERS = ("always-disagg-pd-decider", DEFAULT_DECIDER)

PRODUCERS = (APPROXIMATE, "precise-prefix-cache-producer", "inflight-load-producer")
REJECTING = ("latency-slo-admitter", "probabilistic-admitter")
"""Those that turn requests away."""

IN_PROFILES = (
    AFFINITY, TOKEN_LOAD, ACTIVE, *SCORES, *BY_LOAD, *ALIKE, *OTHER_SCORERS, *OF_ROLES, *BY_LABEL,
    *OTHER_FILTERS, *PICKERS,
)  # fmt: skip
"""Those that a profile may name."""

KNOWN = (
    *IN_PROFILES, *SINGLE, *APART, *OTHER_HANDLERS, *DECIDERS, *PRODUCERS, *REJECTING,
    "always-disagg-multimodal-decider", "concurrency-detector", "core-metrics-extractor",
    "disagg-headers-handler", "endpoint-notification-source", "metrics-data-source",
    "openai-parser", "predicted-latency-producer", "prefill-header-handler", "token-producer",
    "tokenizer", "utilization-detector",
)  # fmt: skip
"""Those whose names are known, for the nearest one to a name that is not."""

_INDEX = (
    "autoTune", "blockSize", "blockSizeTokens", "hashBlockSize", "lruCapacityPerServer",
    "maxPrefixBlocksToMatch", "maxPrefixTokensToMatch",
)  # fmt: skip
_PRECISE = (
    "indexerConfig", "kvCacheBackendConfigs", "kvEventsConfig", "speculativeIndexing",
    "speculativeTTL", "tokenProcessorConfig",
)  # fmt: skip

PARAMETERS = {
    AFFINITY: (
        "affinityThreshold", "explorationProbability", "inFlightLoadProducerName",
        "latencyPredictionInfoProducerName", "maxTTFTPenaltyMs", "maxTokensInFlightPenalty",
        "peakPrefillThroughput", "prefillCalibrationFile", "prefillCalibrationFingerprint",
        "prefillCalibrationRequired", "prefixMatchInfoProducerName", "ttftSource",
    ),
    TOKEN_LOAD: ("inFlightLoadProducerName", "nonTextTokenWeight", "queueThresholdTokens"),
    ACTIVE: ("idleThreshold", "inFlightLoadProducerName", "maxBusyScore", "requestTimeout"),
    PREFIX: (
        "matchLengthScaleTokens", "matchLengthWeight", "maxModelLen", "mode", "prefixLengthWeight",
        "prefixMatchInfoProducerName", *_INDEX, *_PRECISE,
    ),
    PRECISE: _PRECISE,
    QUEUE: (),
    "kv-cache-utilization-scorer": (),
    "kv-cache-scorer": (),
    "load-aware-scorer": ("threshold",),
    APPROXIMATE: _INDEX,
    **dict.fromkeys(PICKERS, ("maxNumOfEndpoints",)),
    "disagg-profile-handler": (
        "deciderPluginName", "deciders", "decodeProfile", "encodeProfile", "prefillProfile",
        "prefixMatchInfoProducerName", "primaryPort", "profiles", "stageOrder",
    ),
    "pd-profile-handler": (
        "deciderPluginName", "decodeProfile", "hashBlockSize", "prefillProfile", "prefixPluginName",
        "prefixPluginType", "prefixMatchInfoProducerName", "primaryPort", "threshold",
    ),
    DEFAULT_DECIDER: ("nonCachedTokens", "prefixMatchInfoProducerName", "promptTokens"),
    "always-disagg-pd-decider": (),
}  # fmt: skip
"""Of plugins that decide, the parameters that one of their releases takes."""
