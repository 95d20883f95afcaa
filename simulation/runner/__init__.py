"""Runs many seeds in parallel, reports those that fail, and reduces a failing run to the faults that it needs."""
