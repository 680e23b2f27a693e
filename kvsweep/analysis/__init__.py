"""Analysis of result datasets: cliffs, fronts, statistics. Knows nothing of the kernel."""
