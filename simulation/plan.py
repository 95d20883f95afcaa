"""What happens to one run from outside: users' actions and faults, made from the seed before the run.

A plan is data, so that a failing run can be repeated with a part of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from simulation.faults import SCENARIOS, Fault, plan_faults
from simulation.settings import CLUSTER, RunSettings
from simulation.users import Action, UserSettings, plan_users


@dataclass(frozen=True)
class Plan:
    """Both in the order of their times."""

    actions: tuple[Action, ...]
    faults: tuple[Fault, ...]

    def __len__(self) -> int:
        return len(self.actions) + len(self.faults)


def plan_of(settings: RunSettings) -> Plan:
    """The plan that the seed gives."""
    scenario = SCENARIOS[settings.scenario]
    people = UserSettings(scenario.actions_per_minute, cluster=CLUSTER, weights=scenario.users)
    actions = plan_users(Random(f"{settings.seed} users"), settings.minutes, people)
    faults = plan_faults(Random(f"{settings.seed} faults"), settings.minutes, settings.scenario)
    return Plan(tuple(actions), tuple(faults))
