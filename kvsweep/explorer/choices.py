"""Names that a key of a scenario may have: those of its family, of its annotation, of a list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, get_args, get_origin

from kvsweep.config.preset import preset_names
from kvsweep.config.rules import FAMILIES
from kvsweep.config.scenario import Scenario
from kvsweep.config.schema import KeyPath, fields_at
from kvsweep.config.transfer import links
from kvsweep.policies import LoadFailure, TierEviction
from kvsweep.sizing.gpus import gpu_names
from kvsweep.sizing.shapes import model_names

# No file is among them: what a page sends must not make kvsweep read one.
_LISTED: dict[KeyPath, Callable[[], list[str]]] = {
    ("cache", "link"): lambda: list(links()),
    ("cache", "offload_eviction"): lambda: list(TierEviction.labels()),
    ("cluster", "kv_load_failure_policy"): lambda: list(LoadFailure.labels()),
    ("model", "preset"): model_names,
    ("model", "gpu"): gpu_names,
}


def choices(path: KeyPath, rules: str) -> list[str]:
    """Return the names that a key may have, none if they are not to be listed.

    Parameters
    ----------
    path : tuple of str or int
        The key.
    rules : str
        Rule book of the scenario.
    """
    for section, key, family in FAMILIES:
        if (path[0], path[-1]) == (section, key):  # of a pool of the cluster too
            return list(family.labels_of(rules))
    if path[-2:] == ("latency", "model"):  # of the scenario, or of a pool
        return preset_names()
    if path in _LISTED:
        return _LISTED[path]()
    if path[-1] == "dist":  # another distribution has other keys
        return []
    words = [word for info in fields_at(Scenario, path) for word in _words(info.annotation)]
    return list(dict.fromkeys(words))


def _words(annotation: Any) -> Iterator[str]:
    """Yield the words of a `Literal` in an annotation."""
    if get_origin(annotation) is Literal:
        yield from (word for word in get_args(annotation) if isinstance(word, str))
    elif get_origin(annotation) is Annotated:
        yield from _words(get_args(annotation)[0])
    else:
        for argument in get_args(annotation):
            yield from _words(argument)
