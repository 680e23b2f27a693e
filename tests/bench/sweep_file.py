"""A sweep of H8 of any size."""

TOML = """
title = "bench"
[workload]
requests = 200
rate = 2000.0
prompt = { dist = "gaussian", mean = 512, std = 50, min = 256, max = 768 }
output = { dist = "gaussian", mean = 256, std = 50, min = 128, max = 512 }
[cluster]
instances = 4
[latency]
model = "llama-3.1-8b/h100/tp2"
[grid]
policy = ["round-robin", "least-loaded"]
"cache.gpu_blocks" = { start = 1000, stop = 2600, num = NUM }
seed = { count = SEEDS }
"""


def toml(points, seeds):
    """Return the sweep with so many block counts and seeds, and two policies."""
    return TOML.replace("NUM", str(points)).replace("SEEDS", str(seeds))
