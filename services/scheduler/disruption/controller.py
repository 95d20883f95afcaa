"""Decides which machines go, one command at a time, and hands it to ``commands`` (DIS-01..05, DIS-27).

Each step: let running commands go on, bring the marks on machines up to date, delete v1 machines that expired, and now
and then look for a new command. The methods are tried in their generation's order; the first that finds something wins.
A consolidation is looked at again after a delay and dropped when it is not right any more. Nothing is decided on a
mirror that is incomplete or old (OPS-13).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from services.scheduler.disruption.commands import Commands
from services.scheduler.disruption.conditions import Mark, due, occupied_nodes
from services.scheduler.disruption.methods import (
    CONSOLIDATIONS,
    Look,
    Method,
    allowed_in,
    delayed,
    look_at,
    methods_of,
)
from services.scheduler.disruption.metrics import count_eligible, count_pass, count_weighed
from services.scheduler.provisioning.planner import Planner
from services.scheduler.state.view import View
from services.scheduler.static_capacity.controller import Replicas
from shared.clock import Clock
from shared.disruption import expiration
from shared.disruption.budgets import REASONS, allowed_now, by_budget, usage
from shared.disruption.candidates import offering_prices, survey
from shared.disruption.churn import Churn
from shared.disruption.records import Candidate, Command, Proposal, Rejection, World
from shared.disruption.validation import validate
from shared.domain.machines import EMPTY, Condition, Machine
from shared.domain.nodepools import V1, V1ALPHA5
from shared.domain.nodes import Node
from shared.domain.snapshot import Snapshot
from shared.errors import Conflict, NotFound, TransientError
from shared.log import get_logger
from shared.messages import TerminateMachine
from shared.settings import SchedulerSettings

log = get_logger(__name__)

TOLD_SECONDS = 10.0
"""After this long the mirror must show our last write; if not, it got lost and is written again."""
UNCHANGED_SECONDS = 300.0
"""DIS-27: how long a pass that found nothing stands while the cluster does not change."""
MOST_TEXTS = 20
"""Of each method, in ``/status``: the most frequent."""
MOST_POSTPONED_SECONDS = 30.0
"""Pods that wait come first, but not for ever."""


@dataclass
class Pending:
    """A command that waits for its second look."""

    command: Command
    due: float


@dataclass
class Pace:
    """When one generation is looked at again."""

    next_look: float = 0.0
    pending: Pending | None = None
    quiet: Look | None = None
    """What the pass saw that found nothing to consolidate."""
    quiet_since: float = 0.0
    unseen: frozenset[str] = frozenset()


@dataclass
class Disruption:
    """The voluntary removal of machines."""

    settings: SchedulerSettings
    view: View
    planner: Planner
    commands: Commands
    clock: Clock
    explanations: dict[tuple[str, str], tuple[Rejection, ...]] = field(default_factory=dict)
    """(method, generation of API) -> why machines stayed, of its last pass."""
    surveyed: tuple[Rejection, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    """Of the last survey, both generations."""
    _allowed: dict[tuple[str, str], int] = field(default_factory=dict)
    """(pool key, reason) -> how many more, as of the last look."""
    _paces: dict[str, Pace] = field(default_factory=lambda: {V1ALPHA5: Pace(), V1: Pace()})
    _told: dict[tuple[str, str], tuple[bool, float]] = field(default_factory=dict)
    """(machine UID, condition) -> what we wrote last, and when (monotonic)."""

    def status(self) -> dict[str, object]:
        """For ``/status``. ``off``: nothing is disrupted, whoever switched it off; ``poolsOff``: keys."""
        pools = self.view.pools()
        halted = sorted(key for key, pool in pools.items() if pool.disruption_off)
        return {
            "off": self._is_off() or (bool(pools) and len(halted) == len(pools)),
            "offBySetting": self._is_off(),
            "poolsOff": halted,
            "candidates": len(self.candidates),
            "waitingForASecondLook": [
                {"method": c.method, "reason": c.reason, "text": c.text} for c in self.pending()
            ],
            "commands": [
                {"id": r.id, "method": r.method, "reason": r.reason, "text": r.text}
                for r in self.commands.records()
            ],
            "stay": self._stay(),
        }

    def _stay(self) -> dict[str, dict[str, int]]:
        """Method -> why machines stay, and how many: the most frequent texts."""
        texts = {"candidates": Counter(rejection.text for rejection in self.surveyed)}
        for (method, _), found in self.explanations.items():
            texts.setdefault(method, Counter()).update(rejection.text for rejection in found)
        return {method: dict(counts.most_common(MOST_TEXTS)) for method, counts in texts.items()}

    def pending(self) -> list[Command]:
        """Those that wait for their second look."""
        return [pace.pending.command for pace in self._paces.values() if pace.pending]

    def exhausted(self, pool_key: str) -> list[str]:
        """Reasons for which the pool's budgets allowed nothing at the last look."""
        return [r for (key, r), left in self._allowed.items() if key == pool_key and left == 0]

    async def step(self) -> None:
        """Look once at every machine."""
        if self.planner.not_synced():
            return
        await self.commands.step()
        await self.commands.clean()
        await self._mark()
        if not self._is_off():
            await self._expire()
        if self.settings.feature_gates.static_capacity:
            await self._keep_replicas()
        for generation in (V1ALPHA5, V1):
            await self._decide(generation, self._paces[generation])

    def _is_off(self) -> bool:
        return self.settings.disruption == "off"

    async def _mark(self) -> None:
        now = self.clock.monotonic()
        self._told = {k: told for k, told in self._told.items() if now - told[1] < TOLD_SECONDS}
        marks = due(
            self.view.machines(),
            self.view.pools(),
            occupied_nodes(self.view.pods()),
            self.planner.nominated(),
            now=self.clock.now(),
        )
        for mark in marks:
            known = self._told.get((mark.machine.uid, mark.condition))
            if known is None or known[0] != mark.is_true:
                await self._write(mark, now)

    async def _write(self, mark: Mark, now: float) -> None:
        condition = Condition(
            "True" if mark.is_true else "False", mark.condition, since=self.clock.now()
        )
        try:
            await self.commands.machines.write_condition(mark.machine, mark.condition, condition)
        except (NotFound, Conflict) as error:
            log.info("overtaken by a change", machine=mark.machine.name, error=error.message)
            return
        self._told[mark.machine.uid, mark.condition] = mark.is_true, now
        pool = self.view.pools().get(mark.machine.pool_key)
        self.commands.teller.marked(mark, pool)
        if mark.is_true:
            # Its time is up before the next regular look, perhaps.
            ttl = (pool.empty_ttl_seconds or 0.0) if pool and mark.condition == EMPTY else 0.0
            pace = self._paces[mark.machine.generation_api]
            pace.next_look = min(pace.next_look, now + ttl)

    async def _expire(self) -> None:
        """DIS-60: v1, without budgets, replacements or simulation; a pool's kill switch holds it."""
        pools = self.view.pools()
        machines = self.view.machines()
        for machine in expiration.forceful(machines, now=self.clock.now()):
            pool = pools.get(machine.pool_key)
            if pool is not None and pool.disruption_off:
                continue
            if await self.commands.delete(machine):
                self.commands.teller.expired(machine)
                await self.commands.order(TerminateMachine.of(machine, "expired"), machine.uid)

    async def _keep_replicas(self) -> None:
        """GAT-01; nothing to do without static pools."""
        catalogue = await self.planner.catalogues.get()
        if catalogue is None or not any(pool.is_static for pool in self.view.pools().values()):
            return
        unavailable = await self.planner.unavailable.current()
        if self.planner.not_synced():
            return  # it may have changed since the step began
        snapshot = self.view.snapshot(catalogue, unavailable)
        await Replicas(self.commands, self.clock).keep(snapshot, self.planner.solver_settings())

    async def _decide(self, generation: str, pace: Pace) -> None:
        now = self.clock.monotonic()
        if pace.pending is not None:
            if now >= pace.pending.due:
                await self._second_look(generation, pace, pace.pending.command)
            return
        if now < pace.next_look or self._must_wait(generation, pace, now):
            return
        world = await self._world(generation)
        if world is None:
            return
        found = await self._first_command(world, generation, pace)
        if found is None:
            pace.next_look = now + self.settings.disruption_period
        elif delayed(found):
            pace.pending = Pending(found, now + self.settings.validation_delay)
            await self.commands.teller.proposed(found)
        else:
            await self.commands.start(found, world.snapshot)

    def _must_wait(self, generation: str, pace: Pace, now: float) -> bool:
        """v1alpha5: one command at a time (DIS-05). Pods that wait are planned first, within reason."""
        if generation == V1ALPHA5 and any(
            key.startswith("Machine/") for r in self.commands.records() for key in r.candidates
        ):
            return True
        planning = self.planner.window.opened_at is not None
        return planning and now - pace.next_look < MOST_POSTPONED_SECONDS

    async def _world(self, generation: str) -> World | None:
        catalogue = await self.planner.catalogues.get()
        if catalogue is None:
            return None
        unavailable = await self.planner.unavailable.current()
        if self.planner.not_synced():
            return None  # it may have changed since the step began
        snapshot = self.view.snapshot(catalogue, unavailable)
        nodes = {node.name: node for node in snapshot.nodes}
        busy = self.commands.busy()
        nominated = self.planner.nominated() | self.commands.targets()
        now = self.clock.now()
        found = survey(
            snapshot, offering_prices(catalogue), nominated=nominated, busy=busy, now=now
        )
        self.surveyed, self.candidates = found.rejections, found.candidates
        allowed = allowed_now(
            snapshot.pools,
            snapshot.machines,
            nodes,
            busy,
            now=now,
            off=self._is_off(),
            spent=await self._spent(),
        )
        self._allowed = allowed
        await self._tell(snapshot, nodes, busy, now=now)
        return World(
            snapshot=snapshot,
            candidates=tuple(c for c in found.candidates if c.machine.generation_api == generation),
            allowed=allowed,
            now=now,
            gates=self.settings.feature_gates,
            solver=self.planner.solver_settings(),
        )

    async def _tell(
        self, snapshot: Snapshot, nodes: Mapping[str, Node], busy: Set[str], *, now: float
    ) -> None:
        """What a look found, whatever comes of it."""
        teller = self.commands.teller
        count_eligible(self.commands.metrics, self.candidates)
        teller.consuming(snapshot, usage(snapshot.machines, nodes, busy)[1], REASONS)
        await teller.budgets(snapshot, by_budget(snapshot.pools, snapshot.machines, nodes, now=now))
        await teller.annotations(snapshot.pods, now=now)

    async def _spent(self) -> dict[str, int]:
        try:
            return await self.commands.rate.spent()
        except TransientError as error:
            log.warning("rate of disruptions not known", error=error.message)
            return {}

    async def _first_command(self, world: World, generation: str, pace: Pace) -> Command | None:
        """DIS-03, DIS-05: the first method that finds something."""
        churn = self._churn()
        look = look_at(world, churn)
        quiet = self._is_quiet(look, pace)
        for method in methods_of(generation, self.settings.consolidation, pace.unseen, churn):
            if quiet and method.name in CONSOLIDATIONS:
                continue
            proposal = await self._ask(method, world, generation)
            if method.remembers:
                pace.unseen = frozenset(proposal.unseen)
            if proposal.commands:
                return proposal.commands[0]
        if not quiet and allowed_in(world):
            pace.quiet = look
            pace.quiet_since = self.clock.monotonic()
        return None

    def _churn(self) -> Churn:
        return Churn(
            move_cost_micro_usd=round(self.settings.consolidation_move_cost * 1_000_000),
            payback_seconds=max(1, round(self.settings.consolidation_payback)),
            rest_seconds=self.settings.consolidation_rest,
        )

    def _is_quiet(self, look: Look, pace: Pace) -> bool:
        """DIS-27."""
        same = pace.quiet == look and not pace.unseen
        return same and self.clock.monotonic() - pace.quiet_since < UNCHANGED_SECONDS

    async def _ask(self, method: Method, world: World, generation: str) -> Proposal:
        started = self.clock.monotonic()
        proposal = await asyncio.to_thread(method.propose, world)
        seconds = self.clock.monotonic() - started
        metrics, late = self.commands.metrics, bool(proposal.unseen)
        count_pass(metrics, method.name, generation, seconds=seconds, late=late)
        count_weighed(metrics, world.weighed)
        world.weighed.clear()
        self.explanations[method.name, generation] = proposal.rejections
        await self._explain(proposal.rejections, world)
        return proposal

    async def _explain(self, rejections: Sequence[Rejection], world: World) -> None:
        nodes = {node.name: node for node in world.snapshot.nodes}
        machines: dict[str, Machine] = {m.key: m for m in world.snapshot.machines}
        await self.commands.teller.rejected(rejections, nodes, machines)

    async def _second_look(self, generation: str, pace: Pace, command: Command) -> None:
        """CON-11, DIS-31."""
        pace.pending = None
        world = await self._world(generation)
        if world is None:
            return
        verdict = await asyncio.to_thread(validate, world, command, self._churn())
        if verdict.command is None:
            await self.commands.teller.invalid(command, verdict)
            pace.next_look = self.clock.monotonic() + self.settings.disruption_period
            return
        await self.commands.teller.approved(verdict.command, command)
        await self.commands.start(verdict.command, world.snapshot)
