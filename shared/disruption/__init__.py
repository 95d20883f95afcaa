"""Decides which machines to disrupt, and why not the others: pure functions over a snapshot (docs/spec/disruption.md).

``candidates`` finds the machines that may be disrupted. One module per method proposes commands. ``simulation`` asks
the solver whether the pods fit elsewhere. Time is a parameter, and the scheduler carries out the commands.
"""
