"""What a model has where its ``config.json`` lacks a key: defaults of transformers' classes.

vLLM reads the file by the class of transformers (5.16 to 5.20) that its ``model_type`` names, which
fills what is missing. Widths and numbers of layers are not filled here: a file without them is
taken to be cut off. Nor are those of DeepSeek's and Gemma 4's classes.
"""

from __future__ import annotations

from typing import Any

from kvsweep.errors import InputError
from kvsweep.sizing.architectures import Architecture, architecture
from kvsweep.sizing.config_values import Values
from kvsweep.sizing.states import with_layers

_MISTRAL = {
    "num_key_value_heads": 8,
    "sliding_window": 4096,
    "max_position_embeddings": 131072,
}
_QWEN = {
    "num_key_value_heads": 32,
    "use_sliding_window": False,
    "sliding_window": 4096,
    "max_window_layers": 28,
    "max_position_embeddings": 32768,
}
_GEMMA2 = {
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "sliding_window": 4096,
    "max_position_embeddings": 8192,
    "vocab_size": 256000,
}
_GEMMA3 = _GEMMA2 | {"max_position_embeddings": 131072, "vocab_size": 262208}

_DELTA = {
    "num_attention_heads": 16,
    "head_dim": 256,
    "max_position_embeddings": 32768,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
}
_MAMBA2 = {
    "mamba_n_heads": 128,
    "mamba_n_groups": 1,
    "mamba_d_state": 256,
    "mamba_d_head": "auto",
    "mamba_d_conv": 4,
    "mamba_expand": 2,
}
_COHERE2 = {"sliding_window": 4096, "max_position_embeddings": 8192}
_GEMMA3N = {
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "sliding_window": 512,
    "num_kv_shared_layers": 15,
    "max_position_embeddings": 32768,
}
_QWEN_VL = {
    "num_key_value_heads": 8,
    "use_sliding_window": False,
    "sliding_window": 4096,
    "max_window_layers": 80,
    "max_position_embeddings": 32768,
}
_GLM4 = {"num_key_value_heads": 2, "head_dim": 128, "max_position_embeddings": 131072}
_QWEN3_VL = {"head_dim": 128, "max_position_embeddings": 128000}

DEFAULTS: dict[str, dict[str, Any]] = {
    "LlamaForCausalLM": {"max_position_embeddings": 2048},
    "GraniteForCausalLM": {"max_position_embeddings": 2048},
    "MistralForCausalLM": _MISTRAL,
    "Mistral3ForConditionalGeneration": _MISTRAL,
    "MixtralForCausalLM": {"num_key_value_heads": 8, "max_position_embeddings": 131072},
    "Phi3ForCausalLM": {
        "max_position_embeddings": 4096,
        "original_max_position_embeddings": 4096,
    },
    "Qwen2ForCausalLM": _QWEN,
    "Qwen3ForCausalLM": _QWEN | {"head_dim": 128},
    "Qwen3MoeForCausalLM": {
        "num_key_value_heads": 4,
        "use_sliding_window": False,
        "sliding_window": 4096,
        "max_position_embeddings": 32768,
    },
    "Glm4MoeForCausalLM": {"num_key_value_heads": 8, "max_position_embeddings": 131072},
    "Gemma2ForCausalLM": _GEMMA2,
    "Gemma3ForCausalLM": _GEMMA3,
    "Gemma3ForConditionalGeneration": _GEMMA3,
    "GptOssForCausalLM": {
        "num_key_value_heads": 8,
        "head_dim": 64,
        "sliding_window": 128,
        "max_position_embeddings": 131072,
    },
    "Qwen3NextForCausalLM": _DELTA | {"num_key_value_heads": 2},
    "Qwen3_5ForCausalLM": _DELTA | {"num_key_value_heads": 4},
    "Qwen3_5ForConditionalGeneration": _DELTA | {"num_key_value_heads": 4},
    "Qwen3_5MoeForCausalLM": _DELTA | {"num_key_value_heads": 2},
    "Qwen3_5MoeForConditionalGeneration": _DELTA | {"num_key_value_heads": 2},
    "NemotronHForCausalLM": {
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": 4096,
        "ssm_state_size": 128,
        "mamba_num_heads": 128,
        "mamba_head_dim": 64,
        "n_groups": 8,
        "conv_kernel": 4,
    },
    "GraniteMoeHybridForCausalLM": _MAMBA2 | {"max_position_embeddings": 2048},
    "CohereForCausalLM": {"max_position_embeddings": 8192},
    "Cohere2ForCausalLM": _COHERE2,
    "Cohere2VisionForConditionalGeneration": _COHERE2,
    "Olmo2ForCausalLM": {"max_position_embeddings": 2048},
    "Olmo3ForCausalLM": {"sliding_window": 4096, "max_position_embeddings": 2048},
    "SeedOssForCausalLM": {
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": 524288,
    },
    "MiniMaxM2ForCausalLM": {
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": 196608,
    },
    "Qwen2MoeForCausalLM": {
        "num_key_value_heads": 16,
        "use_sliding_window": False,
        "sliding_window": 4096,
        "max_position_embeddings": 32768,
    },
    "Exaone4ForCausalLM": {
        "num_key_value_heads": 32,
        "sliding_window": 4096,
        "max_position_embeddings": 2048,
    },
    "Glm4ForCausalLM": _GLM4,
    "Ernie4_5ForCausalLM": _GLM4,
    "Ernie4_5_MoeForCausalLM": {"num_key_value_heads": 4, "max_position_embeddings": 131072},
    "GraniteMoeForCausalLM": {"max_position_embeddings": 2048},
    "GemmaForCausalLM": {
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "head_dim": 256,
        "max_position_embeddings": 8192,
    },
    "OlmoForCausalLM": {"max_position_embeddings": 2048},
    "OlmoeForCausalLM": {"max_position_embeddings": 4096},
    "SmolLM3ForCausalLM": {
        "num_key_value_heads": 4,
        "max_position_embeddings": 32768,
    },
    "Starcoder2ForCausalLM": {"num_key_value_heads": 2, "max_position_embeddings": 4096},
    "HunYuanDenseV1ForCausalLM": {"max_position_embeddings": 2048},
    "HunYuanMoEV1ForCausalLM": {"max_position_embeddings": 2048},
    "ArceeForCausalLM": {"max_position_embeddings": 4096},
    "StableLmForCausalLM": {"num_key_value_heads": 32, "max_position_embeddings": 4096},
    "PhiMoEForCausalLM": {"num_key_value_heads": 8, "max_position_embeddings": 131072},
    "NemotronForCausalLM": {"max_position_embeddings": 4096},
    "GlmForCausalLM": _GLM4,
    "CwmForCausalLM": _GLM4 | {"num_key_value_heads": 8, "sliding_window": 8192},
    "GraniteMoeSharedForCausalLM": {"max_position_embeddings": 2048},
    "Gemma3nForCausalLM": _GEMMA3N,
    "Gemma3nForConditionalGeneration": _GEMMA3N,
    "Qwen2VLForConditionalGeneration": _QWEN_VL,
    "Qwen2_5_VLForConditionalGeneration": _QWEN_VL,
    "Qwen3VLForConditionalGeneration": _QWEN3_VL | {"num_key_value_heads": 32},
    "Qwen3VLMoeForConditionalGeneration": _QWEN3_VL | {"num_key_value_heads": 16},
    "FalconH1ForCausalLM": _MAMBA2
    | {"num_key_value_heads": 8, "max_position_embeddings": 8192, "mamba_d_ssm": 1024},
}
"""Of keys that are missing, by the name in ``architectures``; a null is a value, not a lack."""

MINISTRAL3 = {
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 262144,
}
"""Of a text model of the type ``ministral3``, which has no window, inside of Mistral 3."""


def text_model(whole: Values) -> tuple[str, Architecture, Values]:
    """Return the architecture of a ``config.json``, and the values of its text model, all of them.

    Raises
    ------
    InputError
        If it names no architecture, or one that is not known; or a key is misspelled.
    """
    names = whole.words("architectures")
    if not names:
        raise InputError(f"{whole.where}: architectures: missing; is this a model's config.json?")
    about = architecture(names[0], whole.where)
    text = whole.section("text_config") or whole
    defaults = DEFAULTS.get(names[0], {})
    if text.word("model_type") == "ministral3":
        defaults = MINISTRAL3
    text.check_spelling()
    found = Values(defaults | text.table, text.where)
    if about.divided:
        found.table.pop("head_dim", None)
    return names[0], about, with_layers(found) if about.states == "pattern" else found
