"""How routers choose: one for a cluster, or one for each of its roles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvsweep.config.base import KeyProblem
from kvsweep.config.pools import BOTH_ROLES, RolePool, pools_of
from kvsweep.limits import MIN_WEIGHT
from kvsweep.policies import Routing

if TYPE_CHECKING:
    from kvsweep.config.cluster_section import Cluster


@dataclass(frozen=True)
class Choice:
    """How an instance is chosen.

    Attributes
    ----------
    role : str
        ``both``, ``prefill`` or ``decode``: what the instances do.
    instances : int
        Among how many.
    routing : str
        One of `kvsweep.policies.Routing`.
    scorers : dict
        Weights of weighted routing, by scorer.
    own : frozenset of str
        Which of these keys the pool of the role has itself.
    """

    role: str
    instances: int
    routing: str
    scorers: dict[str, float]
    own: frozenset[str] = frozenset()

    @property
    def is_weighted(self) -> bool:
        """Whether scorers decide."""
        return self.routing == Routing.WEIGHTED.label


def choices_of(cluster: Cluster) -> tuple[Choice, ...]:
    """Return how instances are chosen: for prefill and for decode if they are apart, else once."""
    pools = pools_of(cluster)
    if pools[0][0] == BOTH_ROLES:
        return (Choice(BOTH_ROLES, cluster.instances, cluster.routing, cluster.scorers),)
    found = []
    for role, pool in pools:
        assert isinstance(pool, RolePool)
        own = {"routing": pool.routing, "scorers": pool.scorers}
        found.append(
            Choice(
                role,
                pool.instances,
                pool.routing or cluster.routing,
                cluster.scorers if pool.scorers is None else pool.scorers,
                frozenset(key for key, value in own.items() if value is not None),
            )
        )
    return tuple(found)


def check_weights(cluster: Cluster) -> None:
    """Check that weighted routing has a weight.

    Raises
    ------
    KeyProblem
        Naming the scorers without one.
    """
    for choice in choices_of(cluster):
        if choice.is_weighted and max(choice.scorers.values(), default=0.0) < MIN_WEIGHT:
            path = (choice.role, "scorers") if "scorers" in choice.own else ("scorers",)
            raise KeyProblem(path, "routing 'weighted' needs a weight above 0")
