"""The workload section: who sends what, when."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from kvsweep.config.base import (
    Count,
    Fraction,
    Key,
    KeyProblem,
    Name,
    Rate,
    Section,
    Tokens,
    Variation,
    Whole,
)
from kvsweep.config.bending import OF_LENGTHS, OF_TRACE, Bends
from kvsweep.config.bounds import check_draws
from kvsweep.config.lengths import Gaussian, Lengths
from kvsweep.config.sessions import Sessions
from kvsweep.config.trace_reading import Reading
from kvsweep.limits import MAX_REQUESTS

DEFAULT_ENTROPY = 0x6B767377
"""Entropy of all random streams unless another is given; ASCII for "kvsw"."""

ArrivalProcess = Literal["poisson", "gamma", "weibull", "constant"]

# Processes whose shape follows from the coefficient of variation of their gaps.
_SHAPED = ("gamma", "weibull")


class Client(Section):
    """One of several senders; what it leaves out it takes from the workload.

    Attributes
    ----------
    id : str
        Its name.
    rate_fraction : float
        Its share of `Workload.rate`, relative to the sum of all clients' fractions.
    slo_class : str or None
        Class of its requests: critical, standard, batch, background, or any other name.
    prefix_group : str or None
        Clients of one group put the same content in front of every prompt.
    prefix_len : int
        Tokens of that content, in addition to the prompt's own length.
    sessions : Sessions or None
        Makes its arrivals sessions.
    """

    id: Annotated[Name, Key("1", "name")]
    rate_fraction: Annotated[
        Fraction, Key("1", "share of the arrival rate, relative to the sum of all")
    ] = 1.0
    slo_class: Annotated[Name | None, Key("1", "SLO class")] = None
    prefix_group: Annotated[Name | None, Key("1", "group of clients with the same prefix")] = None
    prefix_len: Annotated[Tokens, Key("token", "tokens of the prefix")] = 50
    prompt: Annotated[Lengths | None, Key("token", "prompts")] = None
    output: Annotated[Lengths | None, Key("token", "outputs")] = None
    arrivals: Annotated[ArrivalProcess | None, Key("1", "arrival process")] = None
    cv: Annotated[
        Variation | None, Key("1", "coefficient of variation of the gaps between arrivals")
    ] = None
    sessions: Sessions | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.prefix_group is None and "prefix_len" in self.model_fields_set:
            raise KeyProblem(("prefix_len",), "needs prefix_group")
        return self


class Workload(Bends):
    """Requests drawn from distributions, or read from a trace and bent (`Bends`).

    Attributes
    ----------
    requests : int
        How many, over all clients.
    rate : float or None
        Requests per second over the whole cluster; of clients with sessions, sessions per second.
        With `concurrency` it may be left out: None, all requests are ready at time zero.
    arrivals : str
        Process of the gaps between arrivals: poisson, gamma, weibull (both shaped by `cv`),
        constant.
    cv : float or None
        Coefficient of variation of the gaps: standard deviation over mean. Needed by gamma and
        weibull, not read by the others. ``--burstiness b`` of ``vllm bench serve`` is gamma with
        ``b ** -0.5``.
    prompt, output : Lengths
        Tokens per request; in sessions a prompt is the new input of a round.
    sessions : Sessions or None
        Makes the arrivals of all clients sessions that have none of their own.
    clients : tuple of Client
        Several senders; empty: one.
    trace : str or None
        File to read instead, relative to the sweep file; ``{seed}`` and ``{policy}`` are filled in.
    read : Reading or None
        How to read it; None: as its content says.
    warmup : int
        First requests that are simulated but left out of the metrics.
    concurrency : int or None
        Requests that may be under way at once: a request that is ready (by `rate`) is sent when
        fewer are, in the order of the list, and arrives then. As ``--max-concurrency`` of ``vllm
        bench serve``. None: each is sent when it is ready.
    """

    requests: Annotated[
        Count, Field(le=MAX_REQUESTS), Key("request", "length of the request list")
    ] = 200
    rate: Annotated[Rate | None, Key("request/s", "arrival rate of the cluster")] = 2000.0
    arrivals: Annotated[ArrivalProcess, Key("1", "arrival process")] = "poisson"
    cv: Annotated[
        Variation | None, Key("1", "coefficient of variation of the gaps between arrivals")
    ] = None
    prompt: Annotated[Lengths, Key("token", "prompts")] = Gaussian(
        dist="gaussian", mean=512, std=50, min=256, max=768
    )
    output: Annotated[Lengths, Key("token", "outputs")] = Gaussian(
        dist="gaussian", mean=256, std=50, min=128, max=512
    )
    sessions: Sessions | None = None
    clients: Annotated[tuple[Client, ...], Key("1", "client")] = ()
    trace: Annotated[Name | None, Key("1", "file of the requests")] = None
    read: Reading | None = None
    warmup: Annotated[
        Whole, Field(le=MAX_REQUESTS), Key("request", "first requests left out of the measures")
    ] = 0
    concurrency: Annotated[
        Annotated[Count, Field(le=MAX_REQUESTS)] | None,
        Key("request", "requests under way at once, at most"),
    ] = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.concurrency is not None:
            self._check_concurrency()
            if "rate" not in self.model_fields_set:
                self.__dict__["rate"] = None  # what follows does not count as given
        elif self.rate is None:
            raise KeyProblem(("rate",), "missing; without it concurrency is needed")
        if self.trace is not None:
            self._check_trace()
            return self
        self._check_lengths()
        if self.read is not None and self.lengths_from is None:
            raise KeyProblem(("read",), "says how a trace is read: needs trace")
        if self.warmup >= self.requests:
            raise KeyProblem(
                ("warmup",), f"{self.warmup} leaves none of {self.requests} requests to measure"
            )
        self._check_clients()
        check_draws(self)
        return self

    def _check_concurrency(self) -> None:
        """Refuse clients who wait for answers already: their sessions bound themselves."""
        if self.sessions or any(client.sessions for client in self.clients):
            raise KeyProblem(
                ("concurrency",),
                "not with sessions; those of arrivals 'closed-loop' wait for their own answers",
            )

    def _check_trace(self) -> None:
        known = {"trace", "read", "warmup", "concurrency", *OF_TRACE}
        for key in sorted(self.model_fields_set - known):
            raise KeyProblem((key,), "a trace brings its own requests: leave out this key or trace")

    def _check_lengths(self) -> None:
        """Refuse what bends a trace where there is none, and lengths from two sources."""
        given = self.model_fields_set & (OF_TRACE | OF_LENGTHS)
        if self.lengths_from is None:
            if self.read is not None:
                raise KeyProblem(("read",), "says how a trace is read: needs trace")
            for key in sorted(given):
                raise KeyProblem((key,), "says what becomes of a trace's requests: needs trace")
            return
        for key in sorted(given - OF_LENGTHS):
            raise KeyProblem((key,), "needs trace; with lengths_from, slice and clip are possible")
        for key in sorted(self.model_fields_set & {"prompt", "output"}):
            raise KeyProblem(
                (key,), "lengths_from gives prompts and outputs: leave out one of them"
            )
        for i, client in enumerate(self.clients):
            for key in sorted(client.model_fields_set & {"prompt", "output"}):
                raise KeyProblem(("clients", i, key), "lengths_from gives prompts and outputs")

    def _check_clients(self) -> None:
        if not self.clients:
            _check_shape((), self.arrivals, self.cv)
        ids: set[str] = set()
        for i, client in enumerate(self.clients):
            if client.id in ids:
                raise KeyProblem(("clients", i, "id"), f"{client.id!r} occurs twice")
            ids.add(client.id)
            own = client.arrivals is not None
            process = client.arrivals or self.arrivals
            where = ("clients", i) if own else ()
            _check_shape(where, process, client.cv or self.cv)
        self._check_truncation()

    def _check_truncation(self) -> None:
        """Refuse clients whose sessions are cut in different ways: they are cut together."""
        kinds = {s.truncate for c in self.clients if (s := c.sessions or self.sessions)}
        if len(kinds) > 1:
            last = max(i for i, client in enumerate(self.clients) if client.sessions)
            raise KeyProblem(
                ("clients", last, "sessions", "truncate"), "must be the same for all clients"
            )


def _check_shape(where: tuple[str | int, ...], process: str, cv: float | None) -> None:
    if process in _SHAPED and cv is None:
        raise KeyProblem((*where, "arrivals"), f"{process!r} needs cv (standard deviation / mean)")
