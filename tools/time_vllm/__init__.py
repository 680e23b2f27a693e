"""How long the steps of a real vLLM take, with random weights, and what it decides meanwhile."""
