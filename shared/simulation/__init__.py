"""Simulates a plan: Kubernetes objects in, the plan as a JSON document out (docs/spec/design.md).

Used by ``dovetail simulate`` and the scheduler's ``POST /simulate``. Pure, except for the clock, which is a parameter.
"""
