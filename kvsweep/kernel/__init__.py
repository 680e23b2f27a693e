"""The engine kernel: vLLM V1 scheduling over a paged KV cache, compiled by numba."""
