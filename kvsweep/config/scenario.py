"""A scenario: a workload, a cluster of engines, their caches and their latencies."""

from pathlib import Path
from typing import Any, Self

from pydantic import ValidationInfo, model_validator

from kvsweep.config.base import Section, fill
from kvsweep.config.bounds import check_products
from kvsweep.config.cache_section import Cache
from kvsweep.config.cluster_section import Cluster
from kvsweep.config.engine_section import Engine
from kvsweep.config.latency import Latency
from kvsweep.config.pools import has_roles, in_flat_keys
from kvsweep.config.rules import check_rules
from kvsweep.config.served_model import ServedModel, from_model, stages_of, times_of_model
from kvsweep.config.service_levels import ServiceLevels
from kvsweep.config.transfer import SPEED_KEYS, settle
from kvsweep.config.workload import Workload


class Scenario(Section):
    """Everything that one simulation depends on but the seed.

    Attributes
    ----------
    workload : Workload or None
        None where the requests come from elsewhere, as in a replay.
    cluster, engine, cache, latency
        The other sections, with their defaults.
    model : ServedModel or None
        What is served: where it says the memory, it decides the blocks of the cache unless given;
        its `pp` decides the stages of the engine's pipeline, or they decide it.
    slo : ServiceLevels or None
        How long a request may take to count as a good one; it changes no simulation.
    """

    workload: Workload | None = None
    cluster: Cluster = Cluster()
    engine: Engine = Engine()
    cache: Cache = Cache()
    latency: Latency = Latency()
    model: ServedModel | None = None
    slo: ServiceLevels | None = None

    @model_validator(mode="after")
    def _fits_rules(self, info: ValidationInfo) -> Self:
        folder = (info.context or {}).get("base_dir", Path())
        if self.model is not None:
            self._settle_stages()
            self._settle_cache(from_model(self, folder))
            self._settle_latency(folder)
        self._settle_cache(settle(self, folder))
        check_rules(self)
        check_products(self)
        return self

    def _settle_stages(self) -> None:
        """Divide the model among as many stages as the engine has, whichever section says it."""
        assert self.model is not None
        stages = stages_of(self.model, self.engine)
        model, engine = self.model.model_copy(), self.engine.model_copy()
        fill(model, pp=stages)
        fill(engine, pipeline_parallel_size=stages)
        fill(self, model=model, engine=engine)

    def _settle_latency(self, folder: Path) -> None:
        assert self.model is not None
        if not self.latency.model_fields_set and self.model.gpu is not None:
            fill(self, latency=Latency.model_validate(times_of_model(self, folder)))

    def _settle_cache(self, settled: dict[str, Any]) -> None:
        cache = self.cache.model_copy()
        fill(cache, **settled)
        fill(self, cache=cache)

    def to_trace(self) -> dict[str, Any]:
        """Return the ``scenario`` of a trace: no workload, coefficients in place, no defaults."""
        dumped: dict[str, Any] = self.model_dump(
            mode="json",
            exclude={
                "workload": True,
                "model": True,
                "slo": True,
                "latency": {"model"},
                "cache": self._unwritten(),
                "cluster": self._unwritten_of_cluster(),
            },
            exclude_defaults=True,
        )
        if not dumped.get("cache", True):
            del dumped["cache"]
        if self.engine.speculative and self.engine.drafts == 0:
            del dumped["engine"]["speculative"]
        dumped["cluster"] = in_flat_keys(dumped.get("cluster", {}))
        for section in ("engine", "cluster"):
            if not dumped.get(section, True):
                del dumped[section]
        if self.latency.model_fields_set:  # latencies of zero are told apart from none
            times = {"alpha": list(self.latency.alpha), "beta": list(self.latency.beta)}
            dumped["latency"] = times | dumped.get("latency", {})
        return dumped

    def _unwritten(self) -> set[str]:
        """Return the keys of the cache that others stand for: blocks, and tokens per microsecond.

        Without a CPU tier nothing of it is written that the user did not give.
        """
        keys = {"gpu_tokens", *SPEED_KEYS}
        if self.cache.cpu_blocks == 0:
            keys |= {"offload", "transfer_bandwidth"} - self.cache.model_fields_set
        return keys

    def _unwritten_of_cluster(self) -> set[str]:
        """Return the keys of the cluster that its pools stand for."""
        return {"instances"} if self.cluster.pools or has_roles(self.cluster) else set()


def validate(data: Any, base_dir: Path) -> Scenario:
    """Return the scenario in `data`; file names in it are relative to `base_dir`.

    Raises
    ------
    pydantic.ValidationError
        If it is none.
    """
    engine = data.get("engine") if isinstance(data, dict) else None
    rules = engine.get("rules", "vllm") if isinstance(engine, dict) else "vllm"
    return Scenario.model_validate(data, context={"base_dir": base_dir, "rules": rules})
