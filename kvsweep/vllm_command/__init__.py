"""What starts a vLLM server, as the tables of a sweep: a command of ``vllm serve``, or a log."""
