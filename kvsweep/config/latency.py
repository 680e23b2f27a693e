"""The latency section: coefficients given in place, by a preset's name, or by a file."""

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from kvsweep.config.base import Key, KeyProblem, Microseconds, Name, Section
from kvsweep.config.coefficients import (
    ALPHAS,
    TOKEN_TERMS,
    Alphas,
    Betas,
    Experts,
    Window,
    check_experts,
    check_window,
    padded,
    padded_beta,
    padded_memory,
    told_if_given,
)
from kvsweep.config.preset import load_preset
from kvsweep.limits import MAX_FIRST_STEPS

NO_LATENCY = "missing; give a model, as in model = 'llama-3.1-8b/h100/tp2', or alpha, beta"
"""What is wrong with a scenario that does not say how long steps take."""


class Latency(Section):
    """Latencies of one instance, microseconds; missing coefficients are 0.

    A token's context is the number of tokens before it in its request: those computed before the
    step for a decoded one, which grows by one from token to token within a chunk of a prefill.

    Attributes
    ----------
    model : str or None
        Preset (``<model>/<hardware>/<tp>``) or TOML file that the coefficients come from.
    alpha : tuple of 3 float
        Queueing is ``int(alpha[0] + alpha[1] * prompt tokens)``; ``int(alpha[2])`` is added once to
        every time that a client sees, never to the clock.
    beta : tuple of 3 or 5 float
        A step takes ``int(beta[0] + beta[1] * prefill tokens + beta[2] * decoding requests
        + beta[3] * context of the decoded tokens + beta[4] * context of the prefill tokens)``.
    memory : tuple of 0 or 5 float
        If given, ``int(beta[0] + max(sum of the other terms of beta, sum of memory))``, where
        `memory` weights 1 and the same four sums: a roofline, of computing and of moving data.
    experts : tuple of 0 or 2 float
        Of a mixture of experts, with `memory`: microseconds of reading the weights of all of them,
        and the share of them that a token is sent to. A step reads those of any of its tokens, by
        chance ``1 - (1 - experts[1]) ** tokens`` of them; ``experts[0]`` times that is added to the
        sum of `memory`.
    window : tuple of 0 or 5 float
        Of layers with a sliding window: its tokens, a token itself included, and microseconds for
        each token of the context that is inside of it, so at most all but one: of decoded tokens
        and of prefill tokens, added to the sum of `beta`, then the same two added to that of
        `memory`. The terms of all context in `beta` and `memory` are of the other layers.
    first_steps_us : tuple of 0 to 4 int
        What the first, the second ... step of each instance takes longer: a server that has just
        started compiles kernels and fills pools on its first batches.
    """

    model: Annotated[Name | None, Key("1", "preset of the latencies")] = None
    alpha: Annotated[
        Alphas,
        Key("us", "coefficient of queueing and overhead"),
    ] = (0.0,) * ALPHAS
    beta: Annotated[Betas, Key("us", "coefficient of the step time")] = (0.0,) * TOKEN_TERMS
    memory: Annotated[Betas, Key("us", "coefficient of moving data in a step")] = ()
    experts: Annotated[Experts, Key("us", "reading all experts, and a token's share of them")] = ()
    window: Annotated[
        Window, Key("us", "sliding window, tokens, and each token of the context inside of it")
    ] = ()
    first_steps_us: Annotated[
        tuple[Microseconds, ...],
        Field(max_length=MAX_FIRST_STEPS),
        Key("us", "what the first steps of an instance take longer"),
    ] = ()

    @model_validator(mode="before")
    @classmethod
    def _from_preset(cls, given: Any, info: ValidationInfo) -> Any:
        if not isinstance(given, dict) or not isinstance(given.get("model"), str):
            return given
        for key in ("alpha", "beta", "memory", "experts", "window"):
            if key in given:
                raise KeyProblem((key,), "give either model or alpha and beta")
        folder = (info.context or {}).get("base_dir", Path())
        return given | load_preset(given["model"], folder).coefficients()

    @property
    def tells_steps(self) -> bool:
        """Whether it says how long steps take, and not only what is added."""
        return not self.model_fields_set.isdisjoint(("model", "beta", "memory"))

    def without_steps(self) -> str:
        """Say that what is given is added to steps of which nothing is told."""
        given = ", ".join(sorted(self.model_fields_set))
        return (
            f"{given}: added to steps, of which nothing is told ([model] computes them only where "
            "there is no [latency]); give a model too, as in model = 'llama-3.1-8b/h100/tp2', or "
            "beta"
        )

    @model_serializer(mode="wrap")
    def _tell(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return told_if_given(dump(self))

    @field_validator("alpha")
    @classmethod
    def _pad_alpha(cls, alpha: tuple[float, ...]) -> tuple[float, ...]:
        return padded(alpha, ALPHAS)

    @field_validator("beta")
    @classmethod
    def _pad_beta(cls, beta: tuple[float, ...]) -> tuple[float, ...]:
        """Return one form for each meaning: context terms appear only if there are any."""
        return padded_beta(beta or (0.0,))

    @field_validator("memory")
    @classmethod
    def _pad_memory(cls, memory: tuple[float, ...]) -> tuple[float, ...]:
        return padded_memory(memory)

    @model_validator(mode="after")
    def _memory_is_moved(self) -> Self:
        check_experts(self.experts, self.memory)
        check_window(self.window, self.memory)
        return self
