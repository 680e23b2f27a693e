"""A GPU's name as its driver says it, and as kvsweep's tables have it."""

from __future__ import annotations

import re

from kvsweep.sizing.gpus import gpu_names


def known_gpu(name: str) -> str:
    """Return the name of `kvsweep.sizing.gpus` for a GPU, empty if it is not known.

    Examples
    --------
    >>> known_gpu("NVIDIA GeForce RTX 4090"), known_gpu("NVIDIA H100 80GB HBM3")
    ('rtx4090', 'h100')
    >>> known_gpu("NVIDIA A100-SXM4-40GB"), known_gpu("NVIDIA GeForce RTX 4090 Laptop GPU")
    ('a100-40gb', '')
    """
    plain = re.sub(r"rtx[ -](?=\d)", "rtx", name.lower())
    plain = plain.replace("rtx pro 6000", "rtx-pro-6000")
    words = re.split(r"[ /_]|-(?!pro|6000)", plain)
    if any(word in ("laptop", "max", "nvl", "pcie") for word in words):
        return ""  # other clocks or another memory than those of the tables
    found = [known for known in gpu_names() if known in words]
    if found == ["a100"] and "40gb" in words:
        return "a100-40gb"
    return found[0] if len(found) == 1 else ""
