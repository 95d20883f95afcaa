"""Backoff, clocks, pauses that end on a stop event, and bounded parallelism."""
