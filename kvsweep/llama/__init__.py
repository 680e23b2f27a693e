"""Measuring a real runtime, llama.cpp: what losing a prefix of the KV cache costs.

Needs the extra ``kvsweep[llama]``, which `llama_runtime`, `llama_load` and `make_model` import on
use.

- `design`: sizes, conditions, repetitions, and their order.
- `prompts`: prompts of exactly so many tokens, of the words in `words`.
- `runtime`: what the experiment needs of a runtime; `llama_runtime` is llama.cpp, and
  `llama_load` loads it.
- `trial`: the protocol: clear, warm, first token, output.
- `experiment`: all trials; what is kept when they are interrupted.
- `dataset`, `csvfiles`: the results.
- `make_model`: a model of random weights that needs no download; its vocabulary is from `bpe`.
- `hardware`: the processor's name and cores.
"""
