"""The picture that a plan of actions follows while it is drawn: which objects people created and did not delete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from shared.domain.pools.generations import V1, V1ALPHA5
from simulation.settings import CLUSTER
from simulation.users.actions import Action, Json, What


@dataclass(frozen=True)
class UserSettings:
    """How much people do. ``weights`` changes how often an action is drawn, by its name in ``ACTIONS``; 0: never."""

    actions_per_minute: float = 10.0
    most_pods: int = 200
    most_workloads: int = 12
    most_replicas: int = 40
    cluster: str = CLUSTER
    zones: tuple[str, ...] = ("us-west-2a", "us-west-2b", "us-west-2c")
    generations: tuple[str, ...] = (V1, V1ALPHA5)
    weights: Mapping[str, float] = field(default_factory=dict)


@dataclass
class Planner:
    """The picture that a plan follows: names of existing objects, and the pods of each workload."""

    random: Random
    settings: UserSettings
    at: float = 0.0
    actions: list[Action] = field(default_factory=list)
    workloads: dict[str, int] = field(default_factory=dict)
    """Deployments and StatefulSets -> replicas."""
    kinds: dict[str, str] = field(default_factory=dict)
    """Workload -> plural of its kind."""
    budgets: list[str] = field(default_factory=list)
    pools: dict[str, str] = field(default_factory=dict)
    """Pool -> generation; its class has the same name as the first pool of the generation."""
    tight: set[str] = field(default_factory=set)
    """Pools whose limits somebody tightened."""
    features: dict[str, list[str]] = field(default_factory=dict)
    """Plural of a kind that only some clusters have, or ``static`` -> names."""
    numbers: dict[str, int] = field(default_factory=dict)

    def name(self, prefix: str) -> str:
        """The next name with this prefix; names are never used again."""
        number = self.numbers[prefix] = self.numbers.get(prefix, 0) + 1
        return f"{prefix}-{number}"

    def add(
        self,
        what: What,
        kind: str = "",
        name: str = "",
        body: Json | None = None,
        *,
        until_done: bool = False,
    ) -> None:
        """Add one action at the present time of the plan."""
        choice, at = round(self.random.random(), 6), round(self.at, 3)
        self.actions.append(Action(at, what, kind, name, body or {}, choice, until_done))

    @property
    def room(self) -> int:
        """How many more pods may exist."""
        return self.settings.most_pods - sum(self.workloads.values())

    def replicas(self) -> int:
        """A size for a workload, within what the run allows."""
        most = min(self.room, self.settings.most_replicas)
        return self.random.randint(1, self.random.randint(1, most)) if most > 0 else 0
