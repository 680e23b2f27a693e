"""Reports as pages: the figures and the words of stores in one file that needs nothing else."""

from kvsweep.webpage.report_page import report_page

__all__ = ["report_page"]
