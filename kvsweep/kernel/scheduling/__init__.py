"""Who runs in a step: running requests, admissions, preemptions, outputs."""
