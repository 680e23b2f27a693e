"""Search instead of a grid: where a limit is passed, from few simulations on paired seeds.

`space` has the axis, `samples` what was simulated and what it says, `root` the search itself, which
asks for simulations and knows nothing of them; `targets`, `problem` and `sharing` make it a search
over the cells of a sweep, `wanted` one that is asked for; `answer`, `flags` and `text` are what is
handed on.
"""
