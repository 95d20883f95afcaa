"""Disruption: which running machines are deleted or replaced, and the commands that do it."""
