"""Datasets with known answers, laid out as a store."""

import numpy as np
import xarray as xr

# How names come out of a store.
NAMES = np.dtype("U16")

H8_BLOCKS = np.r_[1000:2601:25, 3000, 5000]


def dataset(values, *, policies=None, blocks, seeds=None, name="preemption_rate", **others):
    """Lay `values` out as (policy, gpu_blocks, seed), the dimensions that are given."""
    dims, coords = [], {}
    for dim, coord in (("policy", policies), ("gpu_blocks", blocks), ("seed", seeds)):
        if coord is not None:
            dims.append(dim)
            coords[dim] = np.asarray(coord, dtype=NAMES if dim == "policy" else None)
    array = xr.DataArray(np.asarray(values, dtype=float), dims=dims, coords=coords)
    array.attrs.update(units="1", long_name="preemptions per completed request")
    ds = xr.Dataset({name: array, **others})
    ds["gpu_blocks"].attrs.update(units="block", long_name="KV blocks per instance")
    return ds


def status(ds, **where):
    """Return an all-``ok`` status, `where` giving coordinate selections of other statuses."""
    out = xr.full_like(ds["preemption_rate"], "ok", dtype=object).astype(NAMES)
    for kind, selection in where.items():
        out.loc[selection] = kind
    return out


def h8(seeds=100, blocks=H8_BLOCKS):
    """H8's shape: no preemption above ~2150 blocks, 0.5 at 1500, 1 at 1000; equal policies."""
    rng = np.random.default_rng(8)
    foot = 2180.0 + rng.normal(0.0, 45.0, seeds)
    slope = 1.0 / 1250.0 * np.exp(rng.normal(0.0, 0.2, seeds))
    x = np.asarray(blocks, dtype=float)[:, None]
    ramp = np.clip((foot - x) * slope, 0.0, None)
    rates = [
        np.round(200 * np.clip(ramp * shift * rng.lognormal(0.0, 0.1, ramp.shape), 0, 1.6)) / 200
        for shift in (1.0, 0.97)
    ]
    ds = dataset(
        rates, policies=["round-robin", "least-loaded"], blocks=blocks, seeds=np.arange(seeds)
    )
    rate = ds["preemption_rate"]
    ttft = 20.0 + 400.0 * rate * rng.lognormal(0.0, 0.1, rate.shape)
    levels = [0.5, 0.9, 0.95, 0.99]
    quantile = xr.DataArray(levels, dims="quantile", coords={"quantile": levels})
    ds["ttft_ms"] = (ttft * (1.0 + quantile)).assign_attrs(
        units="ms", long_name="quantile of time to first token seen by the client"
    )
    ds["throughput_rps"] = (120.0 - 40.0 * ds["preemption_rate"]).assign_attrs(
        units="request/s", long_name="completed requests per second"
    )
    ds["status"] = status(ds)
    ds.attrs.update(
        title="H8: KV cache pressure",
        question="Where is the preemption cliff as the KV cache shrinks?",
    )
    return ds


def prefix_trials():
    """A measurement of prefixes: 5 trials, 1 ms apart; sizes not in the order of B."""
    from fake_runtime import FakeRuntime

    from kvsweep.llama.dataset import template
    from kvsweep.llama.design import Design, parse_sizes

    design = Design(parse_sizes("256:512,384:384,512:256"), trials=5)
    ds = template(design, FakeRuntime().attributes, [])
    noise = np.array([-2.0, -1.0, 1.0, 2.0, 0.0])
    ds["ttft_ms"].values[:, 0] = 10.0 + noise
    ds["ttft_ms"].values[:, 1] = 10.0 + 0.1 * ds["context_b"].values[:, None] + noise
    ds["throughput_tok_s"].values[:] = 200.0 + noise
    ds["early_eos"].values[:] = 0
    ds["position"].values[:] = np.arange(30).reshape(3, 2, 5)
    return ds
