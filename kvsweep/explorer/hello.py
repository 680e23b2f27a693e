"""The first message to a page: what is explored, and what can be set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvsweep.errors import printable
from kvsweep.explorer.messages import Show

if TYPE_CHECKING:
    from kvsweep.explorer.subject import Subject

BESIDE = (
    ("prefix_hit_rate", "block_hit_rate"),
    ("ttft_p99_ms", "ttft_mean_ms", "e2e_p99_ms"),
    ("throughput_rps", "output_tokens_per_s"),
)
"""Measures beside the first, side by side: the first of each that there is and is not shown yet."""


def hello(subject: Subject) -> dict[str, Any]:
    """Return what a page needs to draw itself."""
    alongs = subject.alongs
    return {
        "kind": "hello",
        "source": subject.kind,
        "name": printable(subject.name),
        "title": printable(subject.title),
        "question": printable(subject.question),
        "alongs": alongs,
        "measures": subject.measures,
        "shown": shown_first(subject),
        "threshold": subject.threshold,
        "controls": {
            along["name"]: [control.to_dict() for control in subject.controls(along["name"])]
            for along in alongs
        },
    }


def shown_first(subject: Subject) -> list[str]:
    """Return the measures that are drawn at first."""
    known = [measure["name"] for measure in subject.measures]
    found = [subject.measure]
    for names in BESIDE:
        found += [name for name in names if name in known and name not in found][:1]
    return found


def first_request(subject: Subject) -> Show:
    """Return what a page asks for at first, to have it ready."""
    return Show(
        kind="show",
        generation=0,
        along=subject.alongs[0]["name"],
        measures=shown_first(subject),
        threshold=subject.threshold,
        scenarios=[{}],
    )
