"""The points of a design as coordinates of its samples."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from kvsweep.config.axes import SAMPLE, about, dimension_names
from kvsweep.config.design import Design

if TYPE_CHECKING:
    import xarray as xr


def with_points(ds: xr.Dataset) -> xr.Dataset:
    """Give each sample of a design the values of its keys, named as axes of a grid would be.

    They follow from the sweep in the attributes, and so are not stored.
    """
    sweep = json.loads(ds.attrs.get("sweep", "{}"))
    if "design" not in sweep or SAMPLE not in ds.dims:
        return ds
    design = Design(**sweep["design"])
    names = dimension_names([*sweep["grid"], *design.ranges])
    columns = zip(design.ranges, zip(*design.points, strict=True), strict=True)
    for key, values in columns:
        meant = about(key)
        attributes = {"units": meant.unit, "long_name": meant.meaning, "key": key}
        ds = ds.assign_coords({names[key]: (SAMPLE, np.array(values), attributes)})
    return ds
