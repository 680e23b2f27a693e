"""Measuring how long the steps of a model take on the GPU (or the processor) at hand.

One decoder layer of each kind that a model has, and its output head, of random weights, are timed
over batches of prefill chunks and decoding requests; `kvsweep.calibrate.step_results` makes a
preset of the times. Needs the extra ``kvsweep[torch]``, which the modules named `torch_*` import on
use.

- `shard`: what of a model one GPU holds; `counts`: what a step of it computes and moves.
- `asked_ranges`, `batches`: how large the batches get that are timed; which ones, and their order.
- `step_device`: what the measurement needs of a device; `torch_device` is PyTorch on CUDA or on a
  processor, `machine` finds out what there is, `torch_load`
  whether it suffices, `torch_clock` times.
- `torch_layer`, `torch_attention`, `torch_experts`, `torch_linear`: the layer.
- `torch_states`: the part of a layer that keeps a state; `torch_state_layout`: the states;
  `torch_scan`, `torch_chunks`: the recurrence, by vLLM's kernels and by PyTorch alone.
- `measuring`: all trials, interrupted and resumed; `step_store`: the dataset.
- `exchange`: a model of what GPUs of tensor parallelism exchange, which is not measured.
"""
