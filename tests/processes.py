"""Processes that tests start."""

# Seconds after which a process or a thread counts as hanging: far more than any needs on a slow or busy machine, so that no
# test fails because of the time it takes.
HANGING = 3600.0
