"""What a worker is asked before it may simulate: whether its numbers would be ours."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Any

import numba
import numpy as np

from kvsweep import simulate
from kvsweep._version import __version__

# Run by workers that may have another kvsweep or none, so it travels as text and needs nothing.
_ASK = """
def ask():
    import sys
    found = {"python": "%d.%d" % sys.version_info[:2]}
    try:
        for name in ("numpy", "numba", "numcodecs", "kvsweep"):
            found[name] = __import__(name).__version__
        from kvsweep.simulate import source_hash
        found["sources"] = source_hash()
    except Exception as error:
        found["problem"] = "%s: %s" % (type(error).__name__, error)
    return found
"""
QUESTION = f"(lambda names: (exec({_ASK!r}, names), names['ask']())[1])({{}})"
"""A Python expression whose value, on a worker, is its answer."""

Answer = dict[str, str]


def own_answer() -> Answer:
    """Return what this process would answer."""
    return {
        "python": "{}.{}".format(*sys.version_info[:2]),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "numcodecs": version("numcodecs"),
        "kvsweep": __version__,
        "sources": simulate.source_hash(),
    }


def why_not(answer: Any, wanted: Answer) -> str:
    """Say why a worker with this answer is not used; empty if it is.

    What decides numbers must be the same, and numcodecs, which compresses what workers write: of
    equal sweeps the stores are equal. Of Python's version neither is known, and it is not refused.
    """
    if not isinstance(answer, dict):
        return f"answers {answer!r}"
    if "problem" in answer:
        return f"cannot import kvsweep ({answer['problem']})"
    reasons = [
        f"{name} {answer.get(name)}, not {wanted[name]}"
        for name in ("kvsweep", "numba", "numpy", "numcodecs")
        if answer.get(name) != wanted[name]
    ]
    if answer.get("sources") != wanted["sources"]:
        reasons.append(
            f"other sources of kvsweep ({answer.get('sources')}, not {wanted['sources']})"
        )
    return ", ".join(reasons)
