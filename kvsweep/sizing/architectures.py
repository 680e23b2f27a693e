"""The architectures that are known, and what sets each apart from the others."""

from __future__ import annotations

import re
from typing import NamedTuple

from kvsweep.errors import InputError, shown

MIXED = ("even", "alternate", "pattern", "every", "listed")
"""Of `Architecture.sliding`, where some layers have a window and others have none."""


class Architecture(NamedTuple):
    """What the configuration of an architecture leaves unsaid.

    Attributes
    ----------
    sliding : str
        Which layers have a sliding window if ``layer_types`` does not say so: ``all`` (if there is
        a window), ``late`` (from ``max_window_layers`` on), ``even``, ``pattern`` (all but every
        ``sliding_window_pattern``-th), ``every`` (all but every `full_every`-th), ``never``, or
        ``listed`` (it must say so); whatever it says ``alternate``, as ``even``.
    mla : bool
        Whether attention is multi-head latent.
    qkv_bias, qk_norm, all_bias, sandwich : bool
        Whether there are biases of the projections to queries, keys and values; norms of queries
        and keys; biases of all projections and attention sinks; norms before and after each part.
    tied : bool
        Whether embedding and output layer are one if ``tie_word_embeddings`` does not say.
    apart : bool
        Whether they are two in vLLM whatever it says.
    family : str
        Row of the table of activations (``gpus.toml``).
    weights : bool
        Whether weights can be counted.
    switched : bool
        Whether ``use_sliding_window`` decides if there is a window: in other classes of
        transformers 5.20 (``configuration_*.py``), and in vLLM, nobody reads it.
    alike : bool
        Whether vLLM gives all layers a window or none, also where ``layer_types`` has several.
    full_every : int
        ``sliding_window_pattern`` if the configuration has none.
    beyond : int
        Tokens that a window has beyond ``sliding_window``.
    cache_only : bool
        Whether no more is known than what its layers keep: steps are not measured either.
    divided : bool
        Whether heads divide ``hidden_size``, whatever ``head_dim`` says.
    states : str or None
        Which layers keep a state, and of what: ``delta`` (gated delta nets, of Qwen), ``pattern``
        (Mamba-2 in NVIDIA's names), ``named`` (Mamba-2), ``both`` (Mamba-2 beside attention in all
        layers); None: no layer does.
    state_dtype : tuple of str
        Key of the data type of the recurrence, if there is one, and what it is without.
    """

    sliding: str = "never"
    mla: bool = False
    qkv_bias: bool = False
    qk_norm: bool = False
    all_bias: bool = False
    sandwich: bool = False
    tied: bool = False
    family: str = "dense"
    weights: bool = True
    apart: bool = False
    switched: bool = False
    alike: bool = False
    full_every: int = 6
    beyond: int = 0
    cache_only: bool = False
    divided: bool = False
    states: str | None = None
    state_dtype: tuple[str, str] = ("", "auto")


_MLA = Architecture(mla=True)
_QWEN = Architecture("late", family="qwen", switched=True, alike=True)
_QWEN35 = Architecture(states="delta", state_dtype=("mamba_ssm_dtype", "auto"))
_NEMOTRON = ("mamba_ssm_cache_dtype", "float32")
_GEMMA3 = Architecture("pattern", qk_norm=True, sandwich=True, tied=True)
_CACHE = Architecture(weights=False, cache_only=True)
_PLAIN = _CACHE._replace(sliding="all")
_ALIKE = _PLAIN._replace(alike=True)
_LISTED = Architecture("listed", weights=False)
_EXAONE4 = _CACHE._replace(sliding="pattern", full_every=4)
_COHERE2 = _EXAONE4._replace(beyond=1)
_OLMO3 = _CACHE._replace(sliding="every", full_every=4)
_GEMMA3N = _OLMO3._replace(full_every=5)
_QWEN_VL = _QWEN._replace(weights=False, cache_only=True, divided=True)
_QWEN2_MOE = _CACHE._replace(switched=True, alike=True, divided=True)

KNOWN = {
    "LlamaForCausalLM": Architecture("all", family="llama"),
    "MistralForCausalLM": Architecture("all", family="llama"),
    "Mistral3ForConditionalGeneration": Architecture("all", weights=False),
    "MixtralForCausalLM": Architecture("all", alike=True),
    "Phi3ForCausalLM": Architecture("all"),
    "Qwen2ForCausalLM": _QWEN._replace(qkv_bias=True, divided=True),
    "Qwen3ForCausalLM": _QWEN._replace(qk_norm=True),
    "Qwen3MoeForCausalLM": Architecture("all", qk_norm=True, switched=True, alike=True),
    "Glm4MoeForCausalLM": Architecture("never", qk_norm=True, weights=False),
    "Gemma2ForCausalLM": Architecture("even", sandwich=True, tied=True),
    "Gemma3ForCausalLM": _GEMMA3,
    "Gemma3ForConditionalGeneration": _GEMMA3._replace(weights=False),
    "Gemma4ForCausalLM": _LISTED,
    "Gemma4ForConditionalGeneration": _LISTED,
    "GraniteForCausalLM": Architecture("never"),
    "GptOssForCausalLM": Architecture("alternate", all_bias=True),
    "DeepseekV2ForCausalLM": _MLA,
    "DeepseekV3ForCausalLM": _MLA,
    "DeepseekV32ForCausalLM": _MLA,
    "Qwen3NextForCausalLM": Architecture(apart=True, states="delta"),
    "Qwen3_5ForCausalLM": _QWEN35,
    "Qwen3_5MoeForCausalLM": _QWEN35,
    "Qwen3_5ForConditionalGeneration": _QWEN35._replace(weights=False),
    "Qwen3_5MoeForConditionalGeneration": _QWEN35._replace(weights=False),
    "NemotronHForCausalLM": Architecture(apart=True, states="pattern", state_dtype=_NEMOTRON),
    "GraniteMoeHybridForCausalLM": Architecture(states="named"),
    "FalconH1ForCausalLM": Architecture(states="both"),
    "CohereForCausalLM": _ALIKE,
    "Cohere2ForCausalLM": _COHERE2,
    "Cohere2VisionForConditionalGeneration": _COHERE2,
    "Olmo2ForCausalLM": _PLAIN,
    "Olmo3ForCausalLM": _OLMO3,
    "SeedOssForCausalLM": _PLAIN,
    "MiniMaxM2ForCausalLM": _ALIKE,
    "Qwen2MoeForCausalLM": _QWEN2_MOE,
    "Exaone4ForCausalLM": _EXAONE4,
    "Glm4ForCausalLM": _ALIKE,
    "Ernie4_5ForCausalLM": _PLAIN,
    "Ernie4_5_MoeForCausalLM": _ALIKE._replace(family="moe"),
    "GraniteMoeForCausalLM": _PLAIN._replace(divided=True),
    "GemmaForCausalLM": _ALIKE,
    "OlmoForCausalLM": _PLAIN,
    "OlmoeForCausalLM": _ALIKE._replace(divided=True),
    "SmolLM3ForCausalLM": _CACHE._replace(sliding="listed"),
    "Starcoder2ForCausalLM": _PLAIN,
    "HunYuanDenseV1ForCausalLM": _PLAIN,
    "HunYuanMoEV1ForCausalLM": _PLAIN,
    "ArceeForCausalLM": _PLAIN,
    "StableLmForCausalLM": _ALIKE,
    "PhiMoEForCausalLM": _ALIKE,
    "NemotronForCausalLM": _ALIKE,
    "GlmForCausalLM": _PLAIN,
    "CwmForCausalLM": _CACHE._replace(sliding="listed"),
    "GraniteMoeSharedForCausalLM": _PLAIN._replace(divided=True),
    "Gemma3nForCausalLM": _GEMMA3N,
    "Gemma3nForConditionalGeneration": _GEMMA3N,
    "Qwen2VLForConditionalGeneration": _QWEN_VL,
    "Qwen2_5_VLForConditionalGeneration": _QWEN_VL,
    "Qwen3VLForConditionalGeneration": _ALIKE,
    "Qwen3VLMoeForConditionalGeneration": _ALIKE,
}
"""Architectures, by the name in ``architectures`` of a ``config.json``."""

WHOLE = ("Gemma3nForCausalLM", "Gemma3nForConditionalGeneration")
"""Architectures that vLLM 0.33.0 does not divide among the stages of a pipeline."""

STATE_SPACE = ("mamba", "jamba", "bamba", "nemotronh", "falconh1", "granitemoehybrid", "zamba")
LINEAR = (
    *("qwen3next", "qwen3_5", "qwen35", "kimilinear", "bailingmoev2_5", "bailingmoev3", "lfm2"),
    *("minimaxforcausallm", "minimaxtext", "minimaxm1", "minimaxvl"),  # MiniMax-M2 attends to all
)


GONE = {
    "BambaForCausalLM": "0.23.0",
    "MiniMaxM1ForCausalLM": "0.23.0",
    "MiniMaxText01ForCausalLM": "0.23.0",
}
"""Architectures that vLLM 0.33.0 has no class of any more, and the last release that has one."""

BY_METRICS = "`kvsweep blocks --log METRICS` reads the blocks that the server's own /metrics tell"
"""What to do where no blocks are computed: a command, as sweeps and `measure gpu` come here too."""


def architecture(name: str, where: str) -> Architecture:
    """Return what is known of an architecture.

    Raises
    ------
    InputError
        If nothing is.
    """
    if name in KNOWN:
        return KNOWN[name]
    low = name.lower()
    if name in GONE:
        why = f"is none of vLLM 0.33.0's: {GONE[name]} was the last release that has it"
    elif any(low.startswith(word) for word in (*STATE_SPACE, *LINEAR)):
        why = "keeps states beside keys and values, whose pages are not computed here"
    else:
        why = "is not known here"
    raise InputError(
        f"{where}: architectures: {shown(name)} {why}; known: {_known()}; {BY_METRICS}{_hint(name)}"
    )


def _known() -> str:
    """List the architectures that are known by what their names end in, which is long."""
    kinds: dict[str, list[str]] = {}
    for known in KNOWN:
        stem, ending, rest = known.partition("For")
        kinds.setdefault(ending + rest, []).append(stem)
    return ", ".join(f"{{{','.join(stems)}}}{ending}" for ending, stems in kinds.items())


def _hint(name: str) -> str:
    """Return the known architecture of which a name is a misspelling, and not one of its kin."""
    from difflib import get_close_matches

    stem, ending, _ = name.partition("For")
    kin = [known for known in KNOWN if _numbers(known) == _numbers(name)]
    stems = {known.partition("For")[0].casefold(): known for known in kin if ending in known}
    close = get_close_matches(stem.casefold(), list(stems), n=1, cutoff=0.85)
    return f"; did you mean {stems[close[0]]!r}?" if close else ""


def _numbers(name: str) -> list[str]:
    return re.findall(r"\d+", name)
