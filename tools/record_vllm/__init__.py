"""Record what vLLM's own scheduler decides for a trace, on a CPU, without a model or a GPU."""
