"""Faults that a run injects: their kinds, scenarios that say how often each happens, and the plan made from a seed."""

from simulation.faults.fault import Fault
from simulation.faults.plan import end_faults, plan_faults
from simulation.faults.scenarios import DEFAULT, SCENARIOS, Scenario

__all__ = ["DEFAULT", "SCENARIOS", "Fault", "Scenario", "end_faults", "plan_faults"]
