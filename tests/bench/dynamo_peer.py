"""Run traces through NVIDIA's offline replay; to be started by a Python that has it.

Usage: ``PYTHON dynamo_peer.py < ASKED``, a line of JSON: traces (paths), workers, blocks, repeats.
Prints what the replays took: processor time of this process by trace and repeat, seconds.
"""

import json
import sys
import time
from importlib.metadata import version

from dynamo._core import run_mocker_trace_replay


def replay(trace, asked):
    """Replay one trace; return processor seconds and the summary."""
    engine = {
        "num_gpu_blocks": asked["blocks"],
        "block_size": 16,
        "max_num_seqs": 256,
        "max_num_batched_tokens": 2048,
    }
    begun = time.process_time()
    result = run_mocker_trace_replay(
        [trace],
        extra_engine_args={"engine": engine, "num_gpu_blocks_is_explicit": True},
        num_workers=asked["workers"],
        trace_block_size=512,
        capture_planner_details=False,
    )
    return time.process_time() - begun, result.summary


def main():
    asked = json.loads(sys.stdin.readline())
    seconds, hits = [], []
    for _ in range(asked["repeats"]):
        runs = [replay(trace, asked) for trace in asked["traces"]]
        seconds.append([took for took, _ in runs])
        hits = [summary["first_admission_prefix_cache_reused_ratio"] for _, summary in runs]
    release = version("ai-dynamo-runtime")
    json.dump({"seconds": seconds, "prefix_hit_rate": hits, "release": release}, sys.stdout)


if __name__ == "__main__":
    main()
