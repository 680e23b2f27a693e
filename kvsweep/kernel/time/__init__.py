"""Clocks: steps and runs of steps, who is due when, how long a step takes, arrivals."""
