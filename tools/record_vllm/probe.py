"""Whether an environment can record: run by its Python, prints which module it still lacks."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

_CONNECTOR = {"offload": "vllm", "cpu_blocks": 4}
_CLUSTER = {"prefill_instances": 1, "decode_instances": 1}
_DRAFTS = {"async_scheduling": True, "speculative": {"tokens": 1, "method": "draft"}}


def traces() -> list[dict[str, Any]]:
    """Return tiny traces that between them import all that recording may import."""
    return [
        _trace({}, _CONNECTOR, {}),
        _trace(_DRAFTS, {"groups": [{"kind": "full"}, {"kind": "sliding", "window": 8}]}, {}),
        _trace({}, {}, _CLUSTER),
    ]


def _trace(engine: dict[str, Any], cache: dict[str, Any], cluster: dict[str, Any]) -> Any:
    request = {"id": 0, "arrival_us": 0, "prompt": [[0, 9]], "output": [1, 2]}
    return {
        "format": "kvsweep-trace/1",
        "scenario": {
            "engine": {"max_num_seqs": 2, "max_num_batched_tokens": 16, **engine},
            "cache": {"block_size": 4, "gpu_blocks": 64, **cache},
            "cluster": cluster,
            "latency": {"alpha": [0, 0, 0], "beta": [1000, 10, 1]},
        },
        "requests": [request],
    }


def missing_module(site: Path) -> str | None:
    """Record the tiny traces; return the module that was missing, None if all is there."""
    try:
        from record_vllm.adapter import Vllm
        from record_vllm.recording import record

        vllm = Vllm(site)
        for trace in traces():
            record(vllm, trace, "tiny trace")
    except ModuleNotFoundError as error:
        return error.name or str(error)
    return None


if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    sys.path[:] = [str(here.parent), str(here.parents[1]), *sys.path[1:]]
    sys.stdout.write(json.dumps({"missing": missing_module(Path(sys.argv[1]))}))
