"""Dimensions of results beyond the grid's, and service levels; read before anything heavy loads."""

DIMENSIONS = {
    "quantile": "quantile",
    "instance": "position of the engine instance",
    "round": "round of a session",
    "slo_class": "SLO class, the most urgent first",
    "request": "position in the request list",
}
"""Every dimension that a variable may have beyond those of the grid, with its meaning."""

LEVELS = ("ttft", "tpot", "e2e")
"""The times of a request that may have a service level."""

TAKEN = frozenset({*DIMENSIONS, *(f"{name}_ms" for name in LEVELS)})
"""Names that no axis has: dimensions, and variables that a key is called like, ``slo.ttft_ms``."""
