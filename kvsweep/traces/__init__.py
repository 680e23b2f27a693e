"""What is in a trace, and what a cache of any size would find again of it."""
