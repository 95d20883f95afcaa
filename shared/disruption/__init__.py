"""Which machines to take away, and why not the others: pure functions over a snapshot (docs/spec/disruption.md).

``candidates`` says what may be disrupted at all; one module per method proposes commands; ``simulation`` asks the
solver whether the pods would find a place. Nothing here writes, waits or knows the time: the scheduler does.
"""
