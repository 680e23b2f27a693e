"""The variables of a request: unit, meaning, and what gives each one's value.

Most come about in a run: `kernel` reads them from what the kernel leaves, `replica` from the
replica's records. What stands in the request list is read there, whoever runs it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kvsweep.dimensions import LEVELS
from kvsweep.metrics.variable import Variable
from kvsweep.policies import BOTH, VLLM, RequestStatus
from kvsweep.records import NONE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsweep.records import Outputs
    from kvsweep.replica.result import RequestRecord
    from kvsweep.workload.requests import Requests


class Known(NamedTuple):
    """What is known of a request of the replica's beside its record.

    Attributes
    ----------
    arrival_us : int
        Its arrival.
    overhead_us : int
        What the client sees later than the step's end, ``latency.alpha[2]``.
    block_size : int
        Tokens of a block.
    output_tokens : int
        Tokens of its output.
    """

    arrival_us: int
    overhead_us: int
    block_size: int
    output_tokens: int


@dataclass(frozen=True)
class RequestVariable(Variable):
    """A variable with a value for each request.

    Attributes
    ----------
    kernel : callable (Outputs) -> (slots,), optional
        Reads it from what a batch leaves that keeps its requests.
    replica : callable (RequestRecord, Known) -> int, float, str or None, optional
        Reads it from the replica's record of a request; None if it has no value.
    listed : callable (Requests) -> (n,), optional
        Reads it from a request list; the others are not given then.
    """

    _: KW_ONLY
    kernel: Callable[[Outputs], NDArray[Any]] | None = None
    replica: Callable[[RequestRecord, Known], float | str | None] | None = None
    listed: Callable[[Requests], NDArray[Any]] | None = None

    def __reduce__(self) -> tuple[Callable[[str], RequestVariable], tuple[str]]:
        """Pickle the name, for workers that are processes: what reads has none to be found by."""
        return _by_name, (self.name,)


def _by_name(name: str) -> RequestVariable:
    """Return the variable of this name."""
    return next(variable for variable in REQUEST_VARIABLES if variable.name == name)


def _found(
    name: str,
    units: str,
    meaning: str,
    *,
    kernel: Callable[[Outputs], NDArray[Any]],
    replica: Callable[[RequestRecord, Known], float | str | None] | None,
    dtype: str = "int64",
    levels: tuple[str, ...] = (),
) -> RequestVariable:
    """Return a variable that comes about in a run; None if the replica's records lack it."""
    rules = BOTH if replica else VLLM
    return RequestVariable(
        f"request_{name}",
        ("request",),
        dtype,
        units,
        meaning,
        rules,
        levels,
        kernel=kernel,
        replica=replica,
    )


def _listed(
    name: str,
    units: str,
    meaning: str,
    listed: Callable[[Requests], NDArray[Any]],
    dtype: str = "int64",
) -> RequestVariable:
    """Return a variable that stands in the request list."""
    return RequestVariable(f"request_{name}", ("request",), dtype, units, meaning, listed=listed)


def _arrival(out: Outputs) -> NDArray[Any]:
    arrived = out.request_status != RequestStatus.NOT_ARRIVED
    return np.where(arrived, out.progress["arrival"], NONE)


def _status(out: Outputs) -> NDArray[Any]:
    names: NDArray[Any] = np.array(RequestStatus.labels(), object)[out.request_status]
    return names


def _class_names(requests: Requests) -> NDArray[Any]:
    names: NDArray[Any] = np.array([*requests.slo_names, ""], object)[requests.slo_class]
    return names


def _first_token(record: RequestRecord, known: Known) -> int | None:
    seen = record.ttft_us
    return None if seen is None else known.arrival_us + seen - known.overhead_us


def _finish(record: RequestRecord, known: Known) -> int | None:
    lasted = record.finish_us
    return None if lasted is None else known.arrival_us + lasted


def _tpot(record: RequestRecord, known: Known) -> float | None:
    # The last token comes at the simulated completion, whatever the reference reports as e2e.
    if record.finish_us is None or record.ttft_us is None or known.output_tokens < 2:
        return None
    return (record.finish_us + known.overhead_us - record.ttft_us) / (known.output_tokens - 1)


def _cached(record: RequestRecord, known: Known) -> int | None:
    return record.cached_blocks_rle[0][0] * known.block_size if record.admissions else None


REQUEST_VARIABLES = (
    _found(
        "arrival_us",
        "us",
        "arrival at the cluster",
        kernel=_arrival,
        replica=lambda record, known: known.arrival_us,
    ),
    _found(
        "queued_us",
        "us",
        "entry into the waiting list",
        kernel=lambda out: out.progress["queued"],
        replica=lambda record, known: record.queued_us,
    ),
    _found(
        "scheduled_us",
        "us",
        "when the first admission was scheduled",
        kernel=lambda out: out.progress["scheduled"],
        replica=lambda record, known: record.first_admit_us,
    ),
    _found(
        "first_token_us",
        "us",
        "end of the step that sampled the first token",
        kernel=lambda out: out.progress["first_token"],
        replica=_first_token,
    ),
    _found(
        "finish_us",
        "us",
        "end of the step that sampled the last token",
        kernel=lambda out: out.progress["finish"],
        replica=_finish,
    ),
    _found(
        "ttft_us",
        "us",
        "first token seen by the client, after arrival",
        kernel=lambda out: out.ttft,
        replica=lambda record, known: record.ttft_us,
    ),
    _found(
        "e2e_us",
        "us",
        "last token seen by the client, after arrival",
        kernel=lambda out: out.e2e,
        replica=lambda record, known: record.e2e_us,
    ),
    _found(
        "tpot_us",
        "us",
        "time per output token after the first, of several",
        kernel=lambda out: np.where(out.tpot < 0, np.nan, out.tpot),
        replica=_tpot,
        dtype="float64",
        levels=LEVELS,
    ),
    _listed("prompt_tokens", "token", "prompt, or all of its context", lambda r: r.prompt_tokens),
    _listed("output_tokens", "token", "output asked for", lambda r: r.output_tokens),
    _found(
        "preemptions",
        "1",
        "times preempted",
        kernel=lambda out: out.preemptions,
        replica=lambda record, known: record.preemptions,
    ),
    _found(
        "recomputed_tokens",
        "token",
        "computed again after those",
        kernel=lambda out: out.progress["recomputed"],
        replica=None,
    ),
    _found(
        "cached_tokens",
        "token",
        "cached at first admission",
        kernel=lambda out: out.progress["cached_tokens"],
        replica=_cached,
    ),
    _found(
        "instance",
        "1",
        "instance routed to",
        kernel=lambda out: out.progress["instance"],
        replica=lambda record, known: record.instance,
    ),
    _listed("session", "1", "conversation, or -1", lambda r: r.session),
    _listed("round", "1", "round of the conversation, or -1", lambda r: r.round),
    _found(
        "status",
        "1",
        "where the request stands at the end",
        kernel=_status,
        replica=lambda record, known: record.status,
        dtype="str",
    ),
    _listed("slo_class", "1", "class of the request, or empty", _class_names, "str"),
)
"""Every variable of a request, in the order of stores."""

RUN_VARIABLES = tuple(variable for variable in REQUEST_VARIABLES if variable.listed is None)
"""Those that come about in a run."""
