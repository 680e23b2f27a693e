"""What a preset adds to step times that were measured: terms to edit, each by its name."""

from kvsweep.config.base import Coefficient, Section

_ONCE, _PREFILL, _DECODE = range(3)


class Added(Section):
    """Times of a step beside its layers, microseconds.

    Attributes
    ----------
    host_overhead_us : float
        What the host takes between two steps: scheduling, inputs, sampling, output.
    allreduce_step_us, allreduce_token_us : float
        What GPUs of tensor parallelism exchange: once a step, and for each of its tokens.
    """

    host_overhead_us: Coefficient = 0.0
    allreduce_step_us: Coefficient = 0.0
    allreduce_token_us: Coefficient = 0.0

    def to(
        self, beta: tuple[float, ...], memory: tuple[float, ...]
    ) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return `Latency.beta` and `Latency.memory` with the terms added.

        The exchange of a token is added to both sums of a roofline, as it waits for either.

        Examples
        --------
        >>> Added(host_overhead_us=500.0, allreduce_token_us=0.5).to((10.0, 1.0, 2.0), (9.0, 0.0))
        ((510.0, 1.5, 2.5), (9.0, 0.5))
        """
        of_token = {_PREFILL: self.allreduce_token_us, _DECODE: self.allreduce_token_us}
        once = {_ONCE: self.host_overhead_us + self.allreduce_step_us}
        return _plus(beta, once | of_token), _plus(memory, of_token)


def _plus(values: tuple[float, ...], terms: dict[int, float]) -> tuple[float, ...]:
    return tuple(value + terms.get(place, 0.0) for place, value in enumerate(values))
