"""Benchmarks of what becomes of plans: days of arrivals in batches, a scale-out and scale-in, placed pods."""
