"""Runs a cluster through simulated time: the scheduler's rounds, passes and validations, and what follows from them.

The planner, the passes and the validation are the scheduler's own. What may go wrong: nothing is launched for pods that
no plan can place; they wait until the end, and count there.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count

from msgspec.structs import replace

from cli.decisions.replaying.again import planned_again
from cli.decisions.replaying.cluster import Cluster, Totals
from cli.decisions.replaying.demand import Wish
from services.scheduler.disruption.conditions import due, next_due, occupied_nodes
from services.scheduler.disruption.methods import delayed, inputs_of
from services.scheduler.disruption.passes import methods_in, world_again
from shared.disruption.delays import Changes, LastChanges, ends
from shared.disruption.methods import expiration
from shared.disruption.records import Command, World
from shared.disruption.validation import validate
from shared.domain.machines.machine import Condition, Machine
from shared.domain.pools.generations import GENERATIONS
from shared.domain.pools.nodepools import NodePool
from shared.domain.workloads.scale_down import waiting_longer
from shared.simulation.decisions.records import PassQuestion, PlanQuestion

BATCH_SECONDS = 1.0
AGAIN_SECONDS = 10.0
"""Pods that still wait are planned for again after so long."""
PERIOD_SECONDS = 10.0
UNCHANGED_SECONDS = 300.0
VALIDATION_SECONDS = 15.0
NEVER = (-1, float("-inf"))
DRAIN_SECONDS = 10.0
"""From the deletion of a machine until its instance has ended."""


@dataclass
class Rules:
    """What decides in this course of events. ``passes``: one question for each generation of the API in use."""

    plan: PlanQuestion
    passes: tuple[PassQuestion, ...]
    boot_seconds: float
    """From a launch until the node is ready."""


@dataclass
class _Running:
    """A command that waits for its replacements."""

    command: Command
    keys: tuple[str, ...]


@dataclass
class Timeline:
    """One course of events, from ``cluster.now`` to ``end``."""

    cluster: Cluster
    rules: Rules
    end: float
    _queue: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _numbers: Iterable[int] = field(default_factory=count)
    _planning: bool = False
    _running: list[_Running] = field(default_factory=list)
    _quiet: dict[str, object] = field(default_factory=dict)
    _unseen: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _pending: set[str] = field(default_factory=set)
    """Generations with a command that waits for its validation: no pass looks for another one (DIS-31)."""
    _looked: tuple[int, float] = NEVER
    """Version of the cluster at the last pass, and its time."""
    _seen: int = -1
    """Version of the cluster when conditions were noted last."""
    _noted: dict[str, tuple[Machine, float]] = field(default_factory=dict)
    """Key of a machine -> its record when its conditions were noted last, and when they may be others."""
    _due: float = float("-inf")
    """When conditions may be others although nothing has changed."""
    _changes: LastChanges = field(default_factory=LastChanges)
    _delays_end: float = float("inf")
    """When a delay of scale-down is over that ran at the last pass."""

    def run(self, wishes: Iterable[Wish]) -> Totals:
        """The totals at the end; pods that still wait count with the time until then."""
        for wish in wishes:
            self._at(wish.at, lambda wish=wish: self._fulfil(wish))  # type: ignore[misc]
        for key, machine in self.cluster.machines.items():
            if not machine.node_name and not machine.terminating:
                self._at(self.cluster.now + self.rules.boot_seconds, self._join(key))
            if machine.terminating:
                self._at(self.cluster.now + DRAIN_SECONDS, self._end(key))
        self._want_plan()
        self._at(self.cluster.now, self._look)
        while self._queue and self._queue[0][0] <= self.end:
            at, _, action = heapq.heappop(self._queue)
            self.cluster.pass_time(at)
            action()
        self.cluster.pass_time(self.end)
        waiting = (p for p in self.cluster.pods.values() if p.unschedulable and not p.node_name)
        self.cluster.totals.waits += [self.end - pod.created_at for pod in waiting]
        return self.cluster.totals

    def _at(self, at: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (at, next(iter(self._numbers)), action))

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        self._at(self.cluster.now + seconds, action)

    def _fulfil(self, wish: Wish) -> None:
        self.cluster.fulfil(wish)
        self._want_plan()

    def _want_plan(self, seconds: float = BATCH_SECONDS) -> None:
        if not self._planning and self.cluster.waits():
            self._planning = True
            self._after(seconds, self._plan)

    def _plan(self) -> None:
        self._planning = False
        question = replace(self.rules.plan, now=self.cluster.now, moving=())
        plan = planned_again(self.cluster.snapshot(), question, bounded=False)
        for key in self.cluster.carry_out(plan):
            self._after(self.rules.boot_seconds, self._join(key))
        self._want_plan(AGAIN_SECONDS)

    def _join(self, key: str) -> Callable[[], None]:
        def join() -> None:
            self.cluster.join(key)
            self._go_on()
            self._want_plan(0.0)

        return join

    def _look(self) -> None:
        """Conditions, expired machines, and a pass for each generation, if anything has changed or time has passed."""
        cluster = self.cluster
        if self._seen != cluster.version or cluster.now >= self._due:
            machines = self._unnoted()
            self._note_conditions(machines)
            for machine in expiration.forceful(machines, now=cluster.now):
                self._drain(machine.key)
            self._seen = cluster.version
            self._due = min((due for _, due in self._noted.values()), default=float("inf"))
        version, at = self._looked
        waited = cluster.now - at >= UNCHANGED_SECONDS or cluster.now >= self._delays_end
        if version != cluster.version or waited:
            self._looked = cluster.version, cluster.now
            for question in self.rules.passes:
                self._pass(question)
        self._after(PERIOD_SECONDS, self._look)

    @cached_property
    def _pools(self) -> dict[str, NodePool]:
        seconds = max((one.rules.unneeded_seconds for one in self.rules.passes), default=0.0)
        return {pool.key: waiting_longer(pool, seconds) for pool in self.cluster.start.pools}

    @cached_property
    def _asks_for_pods(self) -> bool:
        """Only v1alpha5 asks which nodes are empty, and that takes a look at every pod."""
        return not all(pool.api.waits_until_consolidatable for pool in self._pools.values())

    def _unnoted(self) -> list[Machine]:
        """Machines of which something may be due that was not before: they have changed, or time has passed."""
        now, machines = self.cluster.now, self.cluster.machines
        if self._asks_for_pods:
            self._noted.clear()
        for key in self._noted.keys() - machines.keys():
            del self._noted[key]
        found = []
        for key, machine in machines.items():
            known = self._noted.get(key)
            if known is None or known[0] is not machine or now >= known[1]:
                self._noted[key] = machine, next_due([machine], self._pools, now=now)
                found.append(machine)
        return found

    def _note_conditions(self, machines: list[Machine]) -> None:
        cluster, pools = self.cluster, self._pools
        occupied = occupied_nodes(cluster.pods.values()) if self._asks_for_pods else set()
        found = due(machines, pools, occupied, set(), now=cluster.now)
        for machine, condition, is_true in ((c.machine, c.condition, c.is_true) for c in found):
            made = Condition("True" if is_true else "False", condition, "", cluster.now)
            known = cluster.machines[machine.key]
            cluster.version += 1
            cluster.machines[machine.key] = replace(
                known, conditions={**known.conditions, condition: made}
            )

    def _question(self, question: PassQuestion) -> PassQuestion:
        busy = {c.machine.uid for one in self._running for c in one.command.candidates}
        return replace(
            question,
            now=self.cluster.now,
            busy=tuple(sorted(busy)),
            nominated=tuple(sorted(t for one in self._running for t in one.command.targets)),
            unseen=self._unseen.get(question.generation, ()),
            changes=self._changes_for(question),
        )

    def _changes_for(self, question: PassQuestion) -> dict[str, Changes]:
        """What the delays of scale-down go by."""
        pools = self._pools.values()
        if not (question.rules.has_delay or any(pool.has_delay for pool in pools)):
            return {}
        self._changes.note(self.cluster.machines.values())
        found = self._changes.that_count(pools, question.rules)
        running = ends(pools, question.rules, found, now=self.cluster.now)
        self._delays_end = min(running, default=float("inf"))
        return found

    def _pass(self, asked: PassQuestion) -> None:
        if asked.generation in self._pending:
            return
        question = self._question(asked)
        one_at_a_time = GENERATIONS[question.generation].one_command_at_a_time
        if self.cluster.waits() or (one_at_a_time and self._running):
            return
        world = world_again(self.cluster.snapshot(), question)
        if not world.candidates:
            return
        inputs = inputs_of(world, question.churn)
        question = replace(question, quiet=self._quiet.get(question.generation) == inputs)
        for method in methods_in(question):
            proposal = method.propose(world)
            if method.remembers:
                self._unseen[question.generation] = proposal.unseen
            if proposal.commands:
                self._propose(proposal.commands[0], asked)
                return
        self._quiet[question.generation] = inputs

    def _propose(self, command: Command, asked: PassQuestion) -> None:
        if not delayed(command):
            self._start(command)
            return

        def check() -> None:
            self._pending.discard(asked.generation)
            self._looked = NEVER
            world: World = world_again(self.cluster.snapshot(), self._question(asked))
            verdict = validate(world, command, asked.churn)
            if verdict.command is not None:
                self._start(verdict.command)

        self._pending.add(asked.generation)
        self._after(VALIDATION_SECONDS, check)

    def _start(self, command: Command) -> None:
        keys = tuple(self.cluster.launch(planned) for planned in command.replacements)
        for key in keys:
            self._after(self.rules.boot_seconds, self._join(key))
        self.cluster.close(candidate.node.name for candidate in command.candidates)
        self._running.append(_Running(command, keys))
        self._go_on()

    def _go_on(self) -> None:
        """Delete the machines of commands whose replacements are ready."""
        ready = [one for one in self._running if all(map(self.cluster.is_ready, one.keys))]
        self._running = [one for one in self._running if one not in ready]
        for one in ready:
            for candidate in one.command.candidates:
                self._drain(candidate.machine.key)

    def _drain(self, key: str) -> None:
        self.cluster.drain(key)
        self._changes.note(one for one in [self.cluster.machines.get(key)] if one is not None)
        self._after(DRAIN_SECONDS, self._end(key))
        self._want_plan()

    def _end(self, key: str) -> Callable[[], None]:
        return lambda: self.cluster.end(key)
