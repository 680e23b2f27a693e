"""Settings of vLLM 0.33.0 that nobody gave."""

BLOCK_SIZE = 16
"""``CacheConfig.DEFAULT_BLOCK_SIZE``, tokens."""

AITER_BLOCK = 64
"""Tokens of a block of AITER's unified attention (``RocmAiterUnifiedAttentionBackend``)."""

UTILIZATION = 0.92
"""``gpu_memory_utilization``."""

SPARSE_BLOCK = 64
"""Tokens of a block of sparse MLA, whose indexer takes no other on CUDA (``mla/indexer.py``)."""
