"""Settings of vLLM 0.33.0 that nobody gave."""

BLOCK_SIZE = 16
"""``CacheConfig.DEFAULT_BLOCK_SIZE``, tokens."""

UTILIZATION = 0.92
"""``gpu_memory_utilization``."""
