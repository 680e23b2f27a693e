"""Figures of result datasets, sized and lettered for one column of a paper.

Every function returns a `matplotlib.figure.Figure` that belongs to no global state; `save` writes
it the same to the last byte each time.
"""

from kvsweep.plot.bars import plot_bars
from kvsweep.plot.cliff_figure import plot_cliff
from kvsweep.plot.compare_figure import plot_comparison
from kvsweep.plot.curve import plot_curve
from kvsweep.plot.effects_figure import plot_effects
from kvsweep.plot.heatmap import plot_heatmap
from kvsweep.plot.medium import look
from kvsweep.plot.pareto_figure import plot_pareto
from kvsweep.plot.prefix_figure import plot_prefix
from kvsweep.plot.saving import save
from kvsweep.plot.sensitivity_figure import plot_sensitivity
from kvsweep.plot.shares import plot_attainment, plot_cdf
from kvsweep.plot.timeline_figure import plot_timeline
from kvsweep.plot.timeline_page import timeline_page
from kvsweep.plot.tradeoff import plot_tradeoff
from kvsweep.plot.trend import plot_cliff_trend

__all__ = [
    "look",
    "plot_attainment",
    "plot_bars",
    "plot_cdf",
    "plot_cliff",
    "plot_cliff_trend",
    "plot_comparison",
    "plot_curve",
    "plot_effects",
    "plot_heatmap",
    "plot_pareto",
    "plot_prefix",
    "plot_sensitivity",
    "plot_timeline",
    "plot_tradeoff",
    "save",
    "timeline_page",
]
