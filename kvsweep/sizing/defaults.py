"""Settings of vLLM 0.33.0 that nobody gave."""

BLOCK_SIZE = 16
"""``CacheConfig.DEFAULT_BLOCK_SIZE``, tokens."""

AITER_BLOCK = 64
"""Tokens of a block of AITER's unified attention (``RocmAiterUnifiedAttentionBackend``)."""

UTILIZATION = 0.92
"""``gpu_memory_utilization``."""

SPARSE_BLOCK = 64
"""Tokens of a block of sparse MLA, whose indexer takes no other on CUDA (``mla/indexer.py``)."""

GEMMA4_FRAME = 70 + 2 + 6
"""Tokens of a frame of a video that Gemma 4 is shown, with its marks and its time."""

GEMMA4_VIDEO = 32 * GEMMA4_FRAME
"""Of the longest video (``get_mm_max_tokens_per_item`` of its processor)."""
