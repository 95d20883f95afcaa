"""Approval: disruption commands that wait until somebody says yes."""
