"""What the scheduler would do to a cluster, one command after another, in simulated time. Pure.

The methods, budgets, conditions and the validation are the scheduler's own; how long an instance takes to join and a
node to drain is assumed. Nothing happens in this cluster but what Dovetail does: no pod comes or ends by itself, and
machines do not expire by age while they are watched.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from cli.decisions.plan.cluster_in_time import Cluster
from cli.decisions.plan.next_times import next_times
from cli.decisions.plan.rules import Rules, Timing
from services.scheduler.disruption.methods import CONSOLIDATIONS, delayed, methods_of
from services.scheduler.static_capacity.adjustments import adjustments
from shared.disruption.budgets import allowed_now
from shared.disruption.candidates import Survey, survey
from shared.disruption.delays import LastChanges, ends
from shared.disruption.delays import delayed as delayed_pools
from shared.disruption.records import Candidate, Command, Rejection, World
from shared.disruption.validation import validate
from shared.domain.machines.machine import Machine
from shared.domain.pools.generations import GENERATIONS, Generation
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.scale_down import KARPENTERS
from shared.solver.plan import PlannedMachine

HOUR = 3600.0


class Taken(NamedTuple):
    """One machine that went. Times are seconds since the beginning."""

    candidate: Candidate
    command: Command
    begun: float
    over: float


@dataclass
class Course:
    """What happened. ``watched``: seconds until nothing more would have happened, or the horizon."""

    before: Snapshot
    after: Snapshot
    cost_before: int
    cost_after: int
    taken: list[Taken] = field(default_factory=list)
    bought: list[tuple[float, PlannedMachine]] = field(default_factory=list)
    unschedulable: dict[str, str] = field(default_factory=dict)
    stays: dict[str, Rejection] = field(default_factory=dict)
    """Machine key -> why the methods left it, in the last pass."""
    watched: float = 0.0
    unfinished: bool = False
    """Stopped because of the horizon or the number of commands."""


class Running(NamedTuple):
    """A command that holds machines. ``drains``: when their pods leave; ``over``: when they are gone."""

    command: Command
    replacements: tuple[str, ...]
    """Names of its new machines."""
    drains: float
    over: float
    draining: bool = False

    @property
    def uids(self) -> set[str]:
        return {candidate.machine.uid for candidate in self.command.candidates}


@dataclass
class _Player:
    cluster: Cluster
    rules: Rules
    timing: Timing
    begun: float
    most_commands: int
    now: float = 0.0
    running: list[Running] = field(default_factory=list)
    joining: list[tuple[float, Machine]] = field(default_factory=list)
    pending: dict[Generation, tuple[float, Command]] = field(default_factory=dict)
    spent: list[tuple[float, str]] = field(default_factory=list)
    """(time, pool key) of every machine that went, for the limit an hour."""
    changes: LastChanges = field(default_factory=LastChanges)
    unseen: dict[Generation, frozenset[str]] = field(default_factory=dict)
    taken: list[Taken] = field(default_factory=list)
    stays: dict[str, Rejection] = field(default_factory=dict)
    commands: int = 0

    def play(self) -> bool:
        """True when nothing more would happen; False when it was stopped."""
        self.now = self.begun
        while True:
            self._keep_replicas()
            self._finish()
            self._buy_for_pods()
            if self._decide():
                if self.commands >= self.most_commands:
                    return False
                continue  # at the same time: what began may have made room, or need machines
            following = self._following()
            if following is None:
                return True
            if following - self.begun > self.timing.horizon:
                return not (self.running or self.joining or self.pending)
            self.now = following

    def _finish(self) -> None:
        """What is due: nodes join, machines are gone."""
        ready = [machine for at, machine in self.joining if at <= self.now]
        if ready:
            self.joining = [one for one in self.joining if one[0] > self.now]
            self.cluster.join((machine.uid for machine in ready), self.now)
        for number, one in enumerate(self.running):
            if not one.draining and one.drains <= self.now:
                self.cluster.drain(one.uids, self.now)
                self.running[number] = one._replace(draining=True)
        over = [one for one in self.running if one.over <= self.now]
        self.running = [one for one in self.running if one.over > self.now]
        for one in over:
            self.cluster.remove(one.uids)

    def _keep_replicas(self) -> None:
        """Static pools get the machines that they lack, and lose those that are too many."""
        if not self.rules.gates.static_capacity:
            return
        busy = {c.machine.uid for one in self.running for c in one.command.candidates}
        for one in adjustments(self.cluster.snapshot, busy_uids=busy, now=self.now):
            if one.missing:
                made = self.cluster.fill(one.pool, one.missing, self.now)
                self.joining += ((self.now + self.timing.join, machine) for machine in made)
            else:
                self._shrink({machine.key for machine in one.surplus})

    def _shrink(self, surplus: set[str]) -> None:
        """Machines without a working node are gone at once."""
        world = self._survey()
        going = tuple(c for c in world.candidates if c.machine.key in surplus)
        known = {c.machine.key for c in going}
        self.cluster.remove(
            m.uid for m in self.cluster.snapshot.machines if m.key in surplus - known
        )
        if going:
            self._start(surplus_command(going))

    def _buy_for_pods(self) -> None:
        made = self.cluster.provision(self.now)
        self.joining += ((self.now + self.timing.join, machine) for machine in made)

    def _following(self) -> float | None:
        known = [at for at, _ in self.joining]
        known += [at for one in self.running for at in (one.drains, one.over)]
        known += [at for at, _ in self.pending.values()]
        known += [at + HOUR for at, _ in self.spent]
        pools = self.cluster.snapshot.pools
        known += ends(pools, KARPENTERS, self.changes.seen, now=self.now)
        later = next_times(self.cluster.snapshot, self.rules, self.now)
        return min((at for at in (*known, *later) if at > self.now), default=None)

    def _decide(self) -> bool:
        """One command of any generation began, or waits for its validation."""
        self.changes.note(self.cluster.snapshot.machines)
        self.cluster.update_conditions(self._nominated(), self.now)
        return any([self._decide_for(generation) for generation in GENERATIONS.values()])

    def _decide_for(self, generation: Generation) -> bool:
        if generation in self.pending:
            due, waiting = self.pending[generation]
            if due > self.now:
                return False
            del self.pending[generation]
            verdict = validate(self._world(generation), waiting, self.rules.churn)
            if verdict.command is not None:
                self._start(verdict.command)
            return True
        kind = f"{generation.machine_kind}/"
        if generation.one_command_at_a_time and any(
            c.machine.key.startswith(kind) for one in self.running for c in one.command.candidates
        ):
            return False
        if not any(machine.api is generation for machine in self.cluster.snapshot.machines):
            return False
        command = self._first_command(self._world(generation), generation)
        if command is None:
            return False
        if delayed(command):
            self.pending[generation] = (self.now + self.timing.validation, command)
        else:
            self._start(command)
        self.commands += 1
        return True

    def _first_command(self, world: World, generation: Generation) -> Command | None:
        unseen = self.unseen.get(generation, frozenset())
        for method in methods_of(generation, self.rules.consolidation, unseen, self.rules.churn):
            found = method.propose(world)
            if method.remembers:
                self.unseen[generation] = frozenset(found.unseen)
            if found.commands:
                return found.commands[0]
            for rejection in found.rejections:
                if method.name not in CONSOLIDATIONS:
                    self.stays[rejection.machine_key] = rejection
        return None

    def _world(self, generation: Generation) -> World:
        snapshot = self.cluster.snapshot
        busy = self._busy()
        nodes = {node.name: node for node in snapshot.nodes}
        found = self._survey()
        for rejection in found.rejections:
            self.stays[rejection.machine_key] = rejection
        for candidate in found.candidates:
            self.stays.pop(candidate.machine.key, None)
        spent: dict[str, int] = {}
        for at, key in self.spent:
            if at + HOUR > self.now:
                spent[key] = spent.get(key, 0) + 1
        allowed = allowed_now(
            snapshot.pools, snapshot.machines, nodes, busy, now=self.now, spent=spent
        )
        return World(
            snapshot,
            tuple(c for c in found.candidates if c.machine.api is generation),
            allowed,
            self.now,
            self.rules.gates,
            self.rules.solver,
            delayed=delayed_pools(snapshot.pools, KARPENTERS, self.changes.seen, now=self.now),
        )

    def _busy(self) -> set[str]:
        return set().union(*(one.uids for one in self.running))

    def _survey(self) -> Survey:
        cluster = self.cluster
        return survey(
            cluster.snapshot,
            cluster.prices,
            nominated=self._nominated(),
            busy=self._busy(),
            now=self.now,
        )

    def _nominated(self) -> set[str]:
        """Nodes that running commands count on, and those that pods wait for."""
        targets = {
            name for one in self.running for name in (*one.command.targets, *one.replacements)
        }
        return targets | {p.nominated_node for p in self.cluster.snapshot.pods if p.nominated_node}

    def _start(self, command: Command) -> None:
        renamed = tuple(
            replace(planned, name=f"{planned.name}-{self.commands}")
            for planned in command.replacements
        )
        made = self.cluster.buy(renamed, self.now)
        ready = self.now + (self.timing.join if made else 0.0)
        self.joining += ((ready, machine) for machine in made)
        over = ready + self.timing.drain
        names = tuple(machine.name for machine in made)
        self.running.append(Running(command, names, ready, over))
        for candidate in command.candidates:
            self.taken.append(Taken(candidate, command, self.now - self.begun, over - self.begun))
            if candidate.pool.most_disruptions_per_hour is not None:
                self.spent.append((self.now, candidate.pool.key))


def surplus_command(candidates: tuple[Candidate, ...]) -> Command:
    """The end of machines that a static pool has too many. No budget holds it."""
    saving = sum(one.price_micro_usd_per_hour or 0 for one in candidates)
    moved = sum(len(one.pods) for one in candidates)
    return Command(
        "static", "Surplus", candidates, saving_micro_usd_per_hour=saving, moved_pods=moved
    )


MOST_COMMANDS = 2_000


def course_of(
    snapshot: Snapshot,
    rules: Rules,
    timing: Timing,
    *,
    now: float,
    most_commands: int = MOST_COMMANDS,
) -> Course:
    """What would happen from ``now`` on, in seconds since the epoch."""
    cluster = Cluster(snapshot, rules.solver)
    cost_before = cluster.cost()
    player = _Player(cluster, rules, timing, now, most_commands)
    finished = player.play()
    return Course(
        before=snapshot,
        after=cluster.snapshot,
        cost_before=cost_before,
        cost_after=cluster.cost(),
        taken=player.taken,
        bought=[(at - now, planned) for at, planned in cluster.bought],
        unschedulable=cluster.unschedulable,
        stays=dict(_remaining(player)),
        watched=player.now - now,
        unfinished=not finished,
    )


def _remaining(player: _Player) -> Iterator[tuple[str, Rejection]]:
    alive = {machine.key for machine in player.cluster.snapshot.machines}
    yield from ((key, one) for key, one in player.stays.items() if key in alive)
