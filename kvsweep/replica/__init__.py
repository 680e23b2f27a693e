"""A readable replica of the reference simulator that the original experiments ran on."""

from kvsweep.replica.result import Replication
from kvsweep.replica.runner import run

__all__ = ["Replication", "run"]
