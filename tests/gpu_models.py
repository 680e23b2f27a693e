"""Small models of each kind, by the keys of a ``config.json``, and batches for them."""

from kvsweep.gpu.batches import Batch

BATCHES = (Batch(12, 0, 0, 0), Batch(7, 20, 0, 0), Batch(0, 0, 3, 33), Batch(9, 18, 2, 20))

_ANY = {
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 128,
    "vocab_size": 256,
    "max_position_embeddings": 4096,
}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}

DENSE = _ANY | {"architectures": ["LlamaForCausalLM"]}
EXPERTS = _ANY | _EXPERTS | {"architectures": ["Qwen3MoeForCausalLM"]}
WINDOWS = _ANY | {
    "architectures": ["GptOssForCausalLM"],
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "intermediate_size": 32,
    "sliding_window": 8,
}
LATENT = _ANY | {
    "architectures": ["DeepseekV3ForCausalLM"],
    "q_lora_rank": 32,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "moe_intermediate_size": 32,
    "first_k_dense_replace": 1,
}
# Layers with a state, with attention, and with neither, as Nemotron-H has them.
STATES = _ANY | {
    "architectures": ["NemotronHForCausalLM"],
    "num_hidden_layers": 6,
    "hybrid_override_pattern": "M-M*-M",
    "mamba_num_heads": 32,
    "mamba_head_dim": 4,
    "n_groups": 2,
    "ssm_state_size": 16,
    "conv_kernel": 4,
    "chunk_size": 8,
}
STATES_EXPERTS = _ANY | {
    "architectures": ["GraniteMoeHybridForCausalLM"],
    "layer_types": ["mamba", "mamba", "attention", "mamba"],
    "mamba_n_heads": 32,
    "mamba_d_head": 4,
    "mamba_n_groups": 1,
    "mamba_d_state": 16,
    "mamba_d_conv": 4,
    "mamba_chunk_size": 16,
    "mamba_expand": 2,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "intermediate_size": 32,
    "shared_intermediate_size": 64,
    "position_embedding_type": "nope",
}
MODELS = {
    "dense": DENSE,
    "experts": EXPERTS,
    "windows": WINDOWS,
    "latent": LATENT,
    "states": STATES,
    "states-experts": STATES_EXPERTS,
}
