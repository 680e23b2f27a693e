"""Traces on which the kernel once differed from the twin, or that never end."""

import gzip
import json
from pathlib import Path

FILE = Path(__file__).with_name("found.json.gz")


def trace(name):
    """Return the trace of this name."""
    return json.loads(gzip.decompress(FILE.read_bytes()))[name]
