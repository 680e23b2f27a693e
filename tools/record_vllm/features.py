"""Names of the cases that are made, by what they have; how often they are asynchronous."""

HEADS = ("pd-spec-hybrid", "pd-spec-hybrid-kept")
"""Where an EAGLE head may draft beside prefill and decode apart and groups of layers."""

WHOLE = ("async-whole", "offload-whole", "hybrid-whole", "spec-whole", "pd-whole")
"""Where steps take whole prompts, and some requests are too long for one."""

BOTH = (
    *("pd-both", "pd-spec-both", "pd-hybrid-both", "pd-state-both", "pd-lease-both"),
    *("pd-offload-both", "pd-offload-hybrid-both", "pd-offload-spec-both"),
)
"""Where prefill instances have the ``kv_role`` ``kv_both``; asynchronous, else nothing differs."""

EITHER = (
    *("offload", "state", "state-spec", "pd", "pd-spec", "pd-hybrid", "pd-fail", "pd-error"),
    *("pd-lease", "pipeline", "pipeline-state", "spec-longest"),
    *("hybrid-kept", "state-kept", "spec-hybrid-kept", "pd-hybrid-kept", "pipeline-hybrid-kept"),
    *("pipeline-state-kept", "state-spec-kept"),
    *("offload-spec", "offload-hybrid", "offload-spec-hybrid", "offload-hybrid-kept"),
    *("offload-state", "offload-state-spec", "offload-state-kept"),
    *("offload-spec-hybrid-kept", "offload-state-spec-kept", *HEADS),
    *("pd-state", "pd-state-spec", "pd-state-kept", "pd-state-spec-kept", "pd-state-lease"),
    *("pd-offload", "pd-offload-hybrid", "pd-offload-spec", "pd-offload-error", "pd-offload-lease"),
    *("pd-offload-state", "pd-offload-state-spec", "pd-offload-state-kept", *WHOLE),
)
"""Synchronous about half of the time."""

FEATURES = ("sync", "async", "hybrid", "spec", "mix", "pipeline-spec", *EITHER, *BOTH)
"""What `make_case` makes: one feature each, `mix` several together, `pd` prefill/decode, `pd-spec`
with drafts, `pd-hybrid` with groups and some with drafts, too, `pd-fail` with pulls that fail
and are recomputed, `pd-error` with such that end their requests, `pd-lease` with short leases,
`pd-state` with groups of states, `pd-offload` with a CPU tier on one side or both, with `both`
prefill instances whose role that is; with `whole` there are no chunks;
`spec-longest` drafts that vLLM cuts at its longest request; with `kept` windows and states keep
but some blocks in the cache."""

MIXES = (
    {"async", "spec"},
    {"async", "hybrid"},
    {"spec", "hybrid"},
    {"async", "spec", "hybrid"},
    {"async", "offload"},
    {"async", "offload"},
)
