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
MODELS = {"dense": DENSE, "experts": EXPERTS, "windows": WINDOWS, "latent": LATENT}
