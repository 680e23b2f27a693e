"""How many KV cache blocks a model has on a GPU, as vLLM 0.33.0 computes them."""
