"""kvsweep: sweep simulations of paged KV caches in LLM serving and find the preemption cliff."""

__version__ = "0.1.0"
