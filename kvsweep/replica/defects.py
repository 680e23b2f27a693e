"""The reference's defects by name, and which switch repairs each."""

from dataclasses import fields

from kvsweep.replica.switches import Switches

UNSWITCHED = {
    "D14": "The reference's generator stops each client at twice the number of requests and makes "
    "all rounds of a session at once, open loop: follow-ups arrive before the answer that "
    "they follow is finished. It is in the published request lists, not in these rules.",
}
"""Defects outside the simulated rules."""


def defects() -> dict[str, tuple[str, str]]:
    """Return ``{defect: (its switch or "", its effect)}`` in the order of their numbers."""
    found = {
        f.metadata["name"]: (f.name, str(f.metadata["effect"]))
        for f in fields(Switches)
        if f.metadata["name"].startswith("D")
    }
    found |= {name: ("", effect) for name, effect in UNSWITCHED.items()}
    return dict(sorted(found.items(), key=lambda item: int(item[0][1:])))
