"""Sessions: conversations of several rounds, and how their clients go on."""

from typing import Annotated, Literal

from pydantic import Field

from kvsweep.config.base import Count, Key, Positive, Seconds, Section, Share, Switch
from kvsweep.limits import MAX_ROUNDS, MAX_SECONDS


class Sessions(Section):
    """A client's arrivals start sessions of several rounds instead of single requests.

    Attributes
    ----------
    rounds : int
        Requests of a session.
    think_time_s : float
        Seconds between two rounds: in closed loops from seeing an answer to the next question,
        with fixed arrivals from arrival to arrival (see `arrivals`). The mean if `think_time`
        is exponential.
    think_time : str
        Distribution of the think time: ``constant`` or ``exponential``.
    context : str
        ``accumulate``: a round's prompt begins with all earlier rounds, questions and answers.
        ``independent``: it is the new input alone.
    arrivals : str
        ``fixed``: a round arrives think time + 1 us per output token of the round before after
        that one's arrival, answered or not (the original experiments'). ``closed-loop``: it
        arrives think time after the client has seen the last token of the round before, and never
        if that was not completed.
    patience_s : float or None
        Seconds after which a client gives up a request whose first step has not begun.
    reason_ratio : float
        Share of each output that is thinking, 0 to 1.
    keep_reasoning : bool
        Whether the thinking stays in the context of later rounds. Chat templates that drop it
        put the rest of the answer where the thinking was: the blocks computed for the answer do
        not match there, and the next round computes the rest of the answer again.
    truncate : bool
        True: a client draws sessions until they have twice the workload's requests, and the first
        arrivals of all clients are kept, so that the last sessions lack rounds (the original
        experiments'). False: sessions are taken in order of their start with all their rounds, but
        for the last one, which may be cut to give the number of requests.
    """

    rounds: Annotated[Count, Field(le=MAX_ROUNDS), Key("request", "requests of a session")]
    think_time_s: Annotated[Seconds, Key("s", "time between two rounds of a session")]
    think_time: Annotated[
        Literal["constant", "exponential"], Key("1", "distribution of the think time")
    ] = "constant"
    context: Annotated[
        Literal["accumulate", "independent"],
        Key("1", "what the prompt of a round has of the rounds before"),
    ] = "accumulate"
    arrivals: Annotated[
        Literal["fixed", "closed-loop"], Key("1", "what the arrival of a round waits for")
    ] = "fixed"
    patience_s: Annotated[
        Annotated[Positive, Field(le=MAX_SECONDS)] | None,
        Key("s", "time after which a client gives a request up"),
    ] = None
    reason_ratio: Annotated[Share, Key("1", "share of each output that is thinking")] = 0.0
    keep_reasoning: Annotated[
        Switch, Key("1", "whether thinking stays in the context of later rounds")
    ] = True
    truncate: Annotated[Switch, Key("1", "whether the last sessions of a list lack rounds")] = True
