"""The dimensions that results have beyond those of the grid; read before anything heavy loads."""

DIMENSIONS = {
    "quantile": "quantile",
    "instance": "position of the engine instance",
    "round": "round of a session",
    "slo_class": "SLO class, the most urgent first",
    "request": "position in the request list",
}
"""Every dimension that a variable may have beyond those of the grid, with its meaning."""
