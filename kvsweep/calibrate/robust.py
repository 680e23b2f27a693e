"""Coefficients of at least zero by relative errors, of which large ones weigh less."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares, nnls

Floats = NDArray[np.float64]

OUTLIER = 0.05
"""Relative errors beyond this weigh linearly: a pause of the machine during a trial."""


def robust_nnls(design: Floats) -> Floats:
    """Return the coefficients whose weighted sums are nearest to one.

    Parameters
    ----------
    design : array of shape (observations, coefficients)
        What each coefficient multiplies, over the time that was observed; a column of zeros gives
        a coefficient of zero.

    Returns
    -------
    array of shape (coefficients,)
    """
    norms = np.linalg.norm(design, axis=0)
    scale = np.where(norms > 0, norms, 1.0)
    start, _ = nnls(design / scale, np.ones(len(design)))
    end = least_squares(
        lambda x: (design / scale) @ x - 1,
        start + 1e-9,
        bounds=(0.0, np.inf),
        loss="soft_l1",
        f_scale=OUTLIER,
    )
    # What the search leaves within a millionth of a column is zero, kept inside the bounds.
    values: Floats = np.where(norms > 0, end.x * (end.x > 1e-6 * end.x.max()), 0.0) / scale
    return values
