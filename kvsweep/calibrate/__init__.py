"""Latency coefficients from measurements: fitted, judged on what was held out, written as a preset.

- `served`: the times of a real server's requests (a trace with ``expected``); `simulated` fits by
  simulating them, as step times are not known.
- `prefix_trials`: first-token times of one sequence with and without its cached prefix; `direct`
  fits by regression.
- `families`: what is fitted and where the search starts; `searching` searches.
- `holding` finds coefficients that a run cannot tell apart, `probing` others that fit as well;
  `load`, what load a fit has not seen.
- `comparison`: real against simulated, in numbers; `judging` says if that is good.
- `presets` writes; `wording` tells.

Imported by the command line on use only: it needs scipy.
"""
