"""Workloads: who sends what, when."""
