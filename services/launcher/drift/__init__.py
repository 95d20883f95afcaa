"""Machines that differ from what their pool and node class say now get the condition Drifted."""
