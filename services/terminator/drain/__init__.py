"""Drain: which pods go next, their evictions, their volumes, and when a node counts as drained."""
