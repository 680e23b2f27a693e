"""Results as plain terminal text: the finding in a sentence first, then aligned tables."""

from kvsweep.report.cliff import cliff_text
from kvsweep.report.completion import outcome
from kvsweep.report.effects import effects_text
from kvsweep.report.gib import cliff_memory
from kvsweep.report.pareto import pareto_text
from kvsweep.report.prefix import prefix_text, prefix_warnings
from kvsweep.report.seeds import seeds_text
from kvsweep.report.summary import summary, summary_text

__all__ = [
    "cliff_memory",
    "cliff_text",
    "effects_text",
    "outcome",
    "pareto_text",
    "prefix_text",
    "prefix_warnings",
    "seeds_text",
    "summary",
    "summary_text",
]
