"""What would the planner do? Kubernetes objects in, the plan out as one JSON document (docs/spec/design.md).

``dovetail simulate`` and the scheduler's ``POST /simulate`` stand on it. Pure but for the clock that is handed in.
"""
