"""Drawn lists byte by byte: speed must not move a number, and stores are repeated from seeds.

Recorded with NumPy 2.4. A failure after an update of NumPy means that its samplers changed: then
results of old stores are not repeated.
"""

import hashlib
from dataclasses import fields

import numpy as np
import pytest
from pydantic import TypeAdapter

from kvsweep.config import DEFAULT_ENTROPY, Workload
from kvsweep.config.speculative import Speculative
from kvsweep.simulate.list_records import Prepared, prepare, prepare_all
from kvsweep.workload.acceptance import with_acceptance
from kvsweep.workload.blocks import resolve_blocks
from kvsweep.workload.generate import TOGETHER, generate, generate_all
from kvsweep.workload.requests import Requests

SIZE = {"requests": 150}
HEAVY = {"dist": "pareto-lognormal", "alpha": 2.5, "xm": 90, "mu": 5.0, "sigma": 0.5}
CLIENTS = [
    {"id": "chat", "rate_fraction": 3, "slo_class": "critical", "prefix_group": "a"},
    {"id": "code", "arrivals": "gamma", "cv": 2.0, "prompt": {"dist": "constant", "value": 9}},
    {"id": "bulk", "slo_class": "batch", "prefix_group": "a", "prefix_len": 33},
    {"id": "eval", "slo_class": "other", "output": {"dist": "exponential", "mean": 99}},
]
TALK = {"rounds": 4, "think_time_s": 0.02}
WORKLOADS = {
    "default": {},
    "poisson": {"arrivals": "poisson", "rate": 7.5},
    "gamma": {"arrivals": "gamma", "cv": 3.0},
    "weibull": {"arrivals": "weibull", "cv": 0.4},
    "constant": {"arrivals": "constant", "rate": 3.0},
    "concurrency": {"concurrency": 8},
    "gaussian": {"prompt": {"dist": "gaussian", "mean": 300, "std": 200}},
    "least": {"prompt": {"dist": "gaussian", "mean": 300, "std": 200, "min": 250}},
    "most": {"prompt": {"dist": "gaussian", "mean": 300, "std": 200, "max": 350}},
    "value": {"prompt": {"dist": "constant", "value": 70}},
    "uniform": {"prompt": {"dist": "uniform", "min": 5, "max": 1200}},
    "exponential": {"output": {"dist": "exponential", "mean": 40, "max": 90}},
    "heavy": {"prompt": HEAVY | {"mix_weight": 0.3}, "output": HEAVY | {"mix_weight": 0.9}},
    "empirical": {"prompt": {"dist": "empirical", "values": [5, 700, 90], "weights": [1, 0, 3]}},
    "equally": {"output": {"dist": "empirical", "values": [5, 700, 90]}},
    "clients": {"clients": CLIENTS},
    "fixed": {"sessions": TALK},
    "closed-loop": {
        "sessions": TALK | {"arrivals": "closed-loop", "think_time": "exponential"},
    },
    "impatient": {"sessions": TALK | {"patience_s": 0.5, "context": "independent"}},
    "thinking": {"sessions": TALK | {"reason_ratio": 0.4, "keep_reasoning": False}},
    "whole": {"sessions": TALK | {"truncate": False}, "requests": 149},
    "mixed": {
        "clients": [
            CLIENTS[0] | {"sessions": TALK},
            CLIENTS[3] | {"sessions": TALK | {"rounds": 2, "think_time": "exponential"}},
        ],
    },
}
ROOTS = ((0, DEFAULT_ENTROPY), (77, DEFAULT_ENTROPY), (2**40 + 5, DEFAULT_ENTROPY), (3, 0))

GOLDEN = {
    "default": "3fd4b51186d479b1",
    "poisson": "5cf39bf574cea509",
    "gamma": "6b2941ea33621f36",
    "weibull": "984789748fda51e6",
    "constant": "4e5e7427e5eeb219",
    "concurrency": "7a3efd1ea3ac0e2e",
    "gaussian": "aa7dead5b92f97c3",
    "least": "54e327dbe9ab15bc",
    "most": "9839ee6afbcbafc1",
    "value": "0d89aedb73851e04",
    "uniform": "62f6cabaa93469b2",
    "exponential": "0369f8a5378115d7",
    "heavy": "2c07c06e1fe30793",
    "empirical": "9f50d6424112eb4b",
    "equally": "9953256a04d93ead",
    "clients": "d869c40acd6d6c95",
    "fixed": "3b0dc5a4f35bad4b",
    "closed-loop": "2df6dc2e3fa2eaed",
    "impatient": "e25d7b2920d1995d",
    "thinking": "e17f54362e87315b",
    "whole": "f7b533595f4efe8b",
    "mixed": "c3b2a8fbe51548ed",
}


def workload_of(name):
    return TypeAdapter(Workload).validate_json(as_json(SIZE | WORKLOADS[name]))


def drawn(name):
    """Return a digest of all columns, block keys and kernel records of some lists of a workload."""
    workload = workload_of(name)
    digest = hashlib.sha256()
    for seed, entropy in ROOTS:
        requests = generate(workload, seed, entropy)
        add(digest, requests)
        for block_size in (16, 5):
            resolved = resolve_blocks(requests, block_size)
            add(digest, resolved)
            prepared = prepare(requests, resolved)
            records = without_drafts(prepared.records)
            for array in (records, prepared.keys, prepared.chain):
                digest.update(array.tobytes())
            numbers = (prepared.n_keys, prepared.ranked, prepared.n_extents, prepared.n_shared)
            digest.update(repr(numbers).encode())
    return digest.hexdigest()[:16]


def without_drafts(records):
    """Return records as they were before lists could say what is accepted, fails, or is akin."""
    assert not records["accepted_len"].any()
    assert not records["fails"].any()
    since = ("accepted_lo", "accepted_len", "fails", "family")
    names = [name for name in records.dtype.names if name not in since]
    before = np.dtype([(name, records.dtype[name]) for name in names], align=True)
    found = np.zeros(len(records), before)  # what lies between fields is 0
    for name in names:
        found[name] = records[name]
    return found


def as_json(table):
    return TypeAdapter(dict).dump_json(table)


def add(digest, record):
    for field in fields(record):
        value = getattr(record, field.name)
        if field.name in ("accepted", "pull_fails") and value is None:
            continue  # only lists with drafts have it
        if isinstance(value, np.ndarray):
            digest.update(f"{field.name} {value.dtype} {value.shape}".encode() + value.tobytes())
        else:
            digest.update(f"{field.name} {value!r}".encode())


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_list_is_byte_for_byte_what_it_was(name):
    assert drawn(name) == GOLDEN[name]


@pytest.mark.parametrize("name", WORKLOADS)
def test_lists_drawn_together_are_those_drawn_one_by_one(name):
    workload = workload_of(name)
    seeds = [*range(TOGETHER // workload.requests + 2), 2**32 - 1, 2**32, 255, 256]
    together = generate_all(workload, seeds)
    assert len(together) == len(seeds)
    for seed, requests in zip(seeds, together, strict=True):
        alone = generate(workload, seed)
        for field in fields(Requests):
            assert np.array_equal(getattr(requests, field.name), getattr(alone, field.name))


@pytest.mark.parametrize(("block_size", "ahead"), [(16, 0), (100, 1)])
def test_lists_prepared_together_are_those_prepared_one_by_one(block_size, ahead):
    lists = [*generate_all(workload_of("default"), range(3))]
    for name in WORKLOADS:
        lists += generate_all(workload_of(name), range(2))
    drafts = Speculative(method="draft", tokens=2, acceptance=0.5)
    lists.insert(1, with_acceptance(lists[1], drafts, 0))
    together = prepare_all(lists, block_size, ahead)
    assert len(together) == len(lists)
    for requests, found in zip(lists, together, strict=True):
        alone = prepare(requests, resolve_blocks(requests, block_size, ahead))
        assert found.requests is requests
        for field in fields(Prepared)[1:]:
            values = getattr(found, field.name), getattr(alone, field.name)
            assert np.array_equal(*map(np.asarray, values)), field.name
