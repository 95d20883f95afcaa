"""Faults that can strike real processes, less often than in simulated time: each costs real seconds."""

from __future__ import annotations

from simulation.faults import Scenario
from simulation.faults.scenarios import API, AWS, SPOT

RATES = {
    "kill": 1.5,
    "terminate": 0.3,
    "pause": 0.3,
    "cut": 4.0,
    "partition": 0.3,
    "half-open": 0.2,
    "latency": 0.3,
    "slow-reader": 0.2,
    "redis-restart": 0.3,
    "redis-flush": 0.2,
    "redis-stall": 0.3,
    "redis-full": 0.2,
    **{kind: rate / 2 for kind, rate in (API | AWS | SPOT).items() if kind != "sqs-repeats"},
}
REPLACING = {"edit class": 30.0}
"""Machines that drift are replaced, each by a command that waits for what it buys: nothing else that people do shows as
often whether that is waited for."""
CHAOS = Scenario("chaos", "real processes, real signals, a real Redis", RATES, users=REPLACING)
