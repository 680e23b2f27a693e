"""What simulates the tasks of a sweep, in whatever order; the store is filled elsewhere.

- `choosing`: which workers a sweep gets.
- `job`: how a task is simulated, and what workers have in common.
- `threads`: plain threads of this process, for small sweeps.
- `starting`: whether processes can start.
- `silence`: which of Dask's are not heard of any more.
- `cluster`: Dask's workers, for all others. Dask is imported nowhere else.
"""
