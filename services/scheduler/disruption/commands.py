"""Carries out disruption commands, one small step at a time (EXE-01..08).

Record on every candidate -> nodes closed -> replacements created -> wait until all are initialised -> candidates
deleted. The record is on the objects, so a crash between any two steps costs nothing: the next scheduler reads it and
goes on, or rolls back. A command fails as a whole: then its nodes are opened again and replacements that are not ready
yet are deleted; one that is ready stays as a normal node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from services.scheduler.actions import MachineActions, key_of
from services.scheduler.disruption.command_record import (
    Shown,
    Step,
    Written,
    is_shown,
    step,
    with_names_of_its_own,
)
from services.scheduler.disruption.conditions import occupied_nodes
from services.scheduler.disruption.drift_backoff import DriftBackoff
from services.scheduler.disruption.methods import CONSOLIDATIONS, DRIFTS
from services.scheduler.disruption.rate import CountedDisruptions
from services.scheduler.disruption.reporting import DisruptionReporter
from services.scheduler.state.cluster import View
from services.scheduler.state.decisions import Rejected
from services.scheduler.state.plan_inputs import RecentInputs, command_inputs
from shared.api.core.pods import parse_pod
from shared.concurrency.clock import Clock
from shared.disruption.delays import LastChanges
from shared.disruption.methods import emptiness
from shared.disruption.records import Command, World
from shared.domain import labels as keys
from shared.domain.machines.commands import CommandRecord, holder, written
from shared.domain.machines.machine import DISRUPTION_REASON, INITIALIZED, Condition, Machine
from shared.domain.workloads.pods import is_reschedulable
from shared.errors import (
    Conflict,
    DovetailError,
    InvalidObject,
    NotFound,
    TransientError,
)
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.node_taints import NodeTaints, is_cordoned
from shared.kube.resources import PODS
from shared.log import get_logger
from shared.redis.mirror.pending_writes import PendingWrites
from shared.settings import SchedulerSettings

log = get_logger(__name__)

WRITTEN_SECONDS = 30.0
"""What we wrote of a command counts so long at least, and until the mirror shows it: a mirror that stands still must
not make us open its nodes again."""


@dataclass
class Commands:
    """The running commands, as their machines show them."""

    settings: SchedulerSettings
    clock: Clock
    view: View
    kube: Kube
    machines: Machines
    actions: MachineActions
    reporter: DisruptionReporter
    rate: CountedDisruptions
    inputs: RecentInputs
    changes: LastChanges = field(default_factory=LastChanges)
    """When machines came and went last, and commands were rolled back."""
    drift_backoff: DriftBackoff = field(default_factory=DriftBackoff)
    _written: PendingWrites[str, Written] = field(default_factory=PendingWrites)
    """By command id."""
    _targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Command id -> nodes that its pods are to move to."""
    _epoch: int = 0
    _shown: Shown = field(default_factory=Shown)

    @property
    def taints(self) -> NodeTaints:
        return NodeTaints(self.kube)

    def records(self) -> list[CommandRecord]:
        """Every running command, those of a moment ago included, oldest first."""
        machines = self.view.machines()
        found = dict(self._shown.by(machines))
        alive = {m.key for m in machines if not m.terminating} if self._written else set()
        ours = self._written.unshown(
            lambda id_, written: is_shown(written, found.get(id_), alive),
            now=self.clock.monotonic(),
        )
        found |= {id_: written.record for id_, written in ours.items()}
        open_ = [r for id_, r in found.items() if id_ not in ours or not ours[id_].over]
        return sorted(open_, key=lambda record: (record.begun_at, record.id))

    def busy(self) -> set[str]:
        """UIDs of machines that a command holds (EXE-08), and of those we deleted although the mirror does not show it
        yet."""
        held = self.candidates()
        machines = self.view.machines()
        return self.actions.deleted(machines) | {m.uid for m in machines if m.key in held}

    def candidates(self) -> set[str]:
        """Keys of the machines that running commands take away."""
        return {key for record in self.records() for key in record.candidates}

    def replacements(self) -> set[str]:
        """Keys of the machines that running commands wait for."""
        return {key for record in self.records() for key in record.replacements}

    def record_of(self, key: str) -> CommandRecord | None:
        """The command that holds or makes this machine."""
        return next((r for r in self.records() if key in (*r.candidates, *r.replacements)), None)

    def targets(self) -> set[str]:
        """Nodes that running commands count on (EXE-02)."""
        alive = {record.id for record in self.records()}
        self._targets = {id_: names for id_, names in self._targets.items() if id_ in alive}
        return {name for names in self._targets.values() for name in names}

    async def start(
        self, command: Command, id_: str, world: World, rejected: Sequence[Rejected] = ()
    ) -> bool:
        """Begin a command (EXE-01..03). False when that failed and everything was rolled back. ``id_``: as of
        ``start_id``; ``rejected``: what its pass decided against."""
        command = with_names_of_its_own(command, id_)
        record = self._record(command, id_)
        self.reporter.disrupting(command, id_, rejected)
        self._keep_inputs(command, id_, world)
        # Noted before the first write: until the mirror shows the record, ``clean`` must not open the nodes again.
        self._note(record)
        self._targets[record.id] = command.targets
        try:
            await self._hold(command, record)
            for planned in command.replacements:
                stored = await self.actions.create_or_adopt(
                    planned, world.snapshot, plan=id_, reason=command.reason.lower()
                )
                await self.reporter.launching(stored, command.reason)
        except DovetailError as error:
            return await self._give_up(record, error)
        except asyncio.CancelledError:
            # The Lease is lost: a record that is on no machine yet must not be carried out when it is won again.
            self._written.discard(record.id)
            raise
        if command.replacements:
            return await self._confirm(command, record)
        await self._delete(record, [c.machine for c in command.candidates])
        return True

    def _keep_inputs(self, command: Command, id_: str, world: World) -> None:
        """A command that buys nothing costs the same by every policy."""
        if command.replacements:
            consolidating = command.method in CONSOLIDATIONS
            found = command_inputs(world, command.candidates, consolidating=consolidating)
            self.inputs.keep(id_, found)

    async def step(self) -> None:
        """Take every running command one step further."""
        self._forget_earlier_epochs()
        machines = {m.key: m for m in self.view.machines()}
        records = self.records()
        disrupted = sum(len(record.candidates) for record in records)
        for record in records:
            ours = self._written.get(record.id) is not None
            what = step(record, machines, now=self.clock.now(), disrupted=disrupted, ours=ours)
            if what.next in ("wait", "delete") and self._is_halted(record, machines):
                what = Step("roll back", "disruption was switched off")
            try:
                await self._take(what, record, machines)
            except (NotFound, Conflict) as error:
                log.info("overtaken by a change", command=record.id, error=error.message)
            except TransientError as error:
                log.warning("command waits", command=record.id, error=error.message)

    def _forget_earlier_epochs(self) -> None:
        """Another scheduler led since: what it made of our commands stands on their machines."""
        epoch = self.actions.leadership.epoch
        if epoch != self._epoch:
            self._epoch = epoch
            self._written.clear()
            self._targets.clear()

    def _is_halted(self, record: CommandRecord, machines: Mapping[str, Machine]) -> bool:
        """A kill switch also rolls back what has deleted nothing yet."""
        if self.settings.disruption == "off":
            return True
        pools = self.view.pools()
        held = [pools.get(m.pool_key) for key in record.candidates if (m := machines.get(key))]
        return any(pool is not None and pool.disruption_off for pool in held)

    async def _take(
        self, what: Step, record: CommandRecord, machines: Mapping[str, Machine]
    ) -> None:
        held = [m for key in record.candidates if (m := machines.get(key)) and not m.terminating]
        if what.next == "delete":
            held = await self._holding(record)
            self.reporter.replaced(record, machines)
            if record.method in DRIFTS:
                for machine in held:
                    self.drift_backoff.succeed(machine.pool_key)
            await self._delete(record, held)
        elif what.next == "roll back":
            await self._roll_back(record, what.why)
            if record.method in DRIFTS and not self._is_halted(record, machines):
                await self._hold_back(held)
        elif what.next == "over":
            self._written.discard(record.id)
        else:
            waiting = [m for key in record.replacements if (m := machines.get(key))]
            await self.reporter.waiting(waiting)

    async def _hold_back(self, held: Sequence[Machine]) -> None:
        """The replacements of these drifted machines failed: their pools wait (DRF-09)."""
        pools = self.view.pools()
        for key in sorted({machine.pool_key for machine in held}):
            seconds = self.drift_backoff.fail(key, now=self.clock.monotonic())
            if seconds and key in pools:
                await self.reporter.held_back(pools[key], seconds)

    def drift_held(self) -> frozenset[str]:
        """Keys of the pools whose drifted machines are left alone now (DRF-09)."""
        drifting = {key for r in self.records() if r.method in DRIFTS for key in r.candidates}
        replacing = frozenset(m.pool_key for m in self.view.machines() if m.key in drifting)
        return self.drift_backoff.held(replacing, now=self.clock.monotonic())

    def _record(self, command: Command, id_: str) -> CommandRecord:
        names = tuple(key_of(planned) for planned in command.replacements)
        return CommandRecord(
            id=id_,
            method=command.method,
            reason=command.reason,
            candidates=tuple(c.machine.key for c in command.candidates),
            replacements=names,
            begun_at=self.clock.now(),
            text=command.text,
        )

    def _note(self, record: CommandRecord, *, over: bool = False) -> None:
        now = self.clock.monotonic()
        self._written.note(record.id, Written(record, over), now=now, least_seconds=WRITTEN_SECONDS)

    async def _hold(self, command: Command, record: CommandRecord) -> None:
        """Write the record on all candidates, then close their nodes. Raises on any failure, Conflict for a machine
        that another command holds although the mirror does not show it yet (EXE-08)."""
        # The record first: after a crash a closed node without a record would be nobody's to open.
        for candidate in command.candidates:
            await self.machines.annotate(
                candidate.machine, keys.COMMAND_ANNOTATION, written(record),
                unless=lambda stored: holder(stored) is not None,
            )  # fmt: skip
        for candidate in command.candidates:
            api = candidate.machine.api
            if api.closes_by_taint or command.replacements:  # EXE-07
                await self.taints.cordon(candidate.node.name, api)
            if api.detailed_status:
                condition = Condition("True", command.reason, command.text, self.clock.now())
                await self.machines.write_condition(candidate.machine, DISRUPTION_REASON, condition)

    async def _confirm(self, command: Command, record: CommandRecord) -> bool:
        """All replacements exist: write that on the record, then request their launch."""
        # In this order: a record that says so is gone on with after a crash, any other is rolled back, and what is
        # rolled back must have no instance that nobody waits for.
        record = replace(record, created=True)
        self._note(record)
        note = {"annotations": {keys.COMMAND_ANNOTATION: written(record)}}
        try:
            for candidate in command.candidates:
                await self.machines.patch(candidate.machine, note)
        except DovetailError as error:
            return await self._give_up(record, error)
        for key in record.replacements:
            await self.actions.request_launch(key, record.id)
        return True

    async def _holding(self, record: CommandRecord) -> list[Machine]:
        """The candidates that have this record on the API server."""
        # What we remember is no proof: the record may never have been written, or be taken off since.
        stored = [m for key in record.candidates if (m := await self._stored(key))]
        known = ((m, holder(m)) for m in stored if not m.terminating)
        return [m for m, found in known if found is not None and found.id == record.id]

    async def _delete(self, record: CommandRecord, held: list[Machine]) -> None:
        """Delete the candidates (EXE-06). Emptiness asks the API server for pods once more (R5)."""
        for machine in held:
            if record.method == emptiness.METHOD and await self._is_occupied(machine):
                log.info("node is not empty any more", node=machine.node_name)
                await self._release(machine)
                continue
            await self.rate.spend(machine)
            if not await self.actions.delete(machine):
                continue
            await self._report(record, machine)
            await self.actions.request_termination(machine, record.reason.lower(), record.id)
        self._note(record, over=True)

    async def _report(self, record: CommandRecord, machine: Machine) -> None:
        node = self.view.nodes().get(machine.node_name)
        pool = self.view.pools().get(machine.pool_key)
        moving = sum(
            is_reschedulable(pod) and pod.node_name == machine.node_name for pod in self.view.pods()
        )
        await self.reporter.terminating(record, machine, pool, node, moving)

    async def _is_occupied(self, machine: Machine) -> bool:
        listed = await self.kube.list(PODS, field_selector=f"spec.nodeName={machine.node_name}")
        return bool(occupied_nodes(parse_pod(raw) for raw in listed.items))

    async def _give_up(self, record: CommandRecord, error: DovetailError) -> bool:
        """A command that could not be begun. What cannot be rolled back now is found by the next step."""
        log.warning("cannot disrupt", command=record.id, error=error.message)
        try:
            await self._roll_back(record, error.message)
        except DovetailError as second:
            log.warning("roll back waits", command=record.id, error=second.message)
            self._written.discard(record.id)
        except asyncio.CancelledError:
            self._written.discard(record.id)  # as in ``start``
            raise
        return False

    async def _roll_back(self, record: CommandRecord, why: str) -> None:
        """Open the nodes, delete replacements that are not ready, take the record off (EXE-05)."""
        # Nodes first: pods wait for them. Records last: by them the next scheduler finds what a crash left to do.
        stored = [m for key in record.candidates if (m := await self._stored(key))]
        held = [m for m in stored if not m.terminating and _is_held_by(m, record)]
        for machine in held:
            await self._reopen(machine)
        made = [m for key in record.replacements if (m := await self._stored(key))]
        unready = [m for m in made if not m.has(INITIALIZED) and not m.terminating]
        for machine in unready:
            await self.actions.delete(machine)
        for machine in held:
            await self._take_off_record(machine)
        self._note(record, over=True)
        self.changes.fail((machine.pool_key for machine in stored), now=self.clock.now())
        self.reporter.failed(record, why, len(unready))

    async def _stored(self, key: str) -> Machine | None:
        """As it is on the API server: the mirror may lack what a scheduler wrote right before it died."""
        try:
            return await self.machines.get(key)
        except (NotFound, InvalidObject):
            return None

    async def _reopen(self, machine: Machine) -> None:
        """Let pods come again, and write that the machine stays."""
        await self.taints.uncordon(machine.node_name, machine.api)
        if machine.api.detailed_status:
            condition = Condition("False", "RolledBack", "", self.clock.now())
            await self.machines.write_condition(
                machine, DISRUPTION_REASON, condition, unless=lambda m: not m.has(DISRUPTION_REASON)
            )

    async def _take_off_record(self, machine: Machine) -> None:
        try:
            await self.machines.patch(machine, {"annotations": {keys.COMMAND_ANNOTATION: None}})
        except (NotFound, Conflict) as error:
            log.info("machine changed meanwhile", machine=machine.name, error=error.message)

    async def _release(self, machine: Machine) -> None:
        """One machine stays, whatever becomes of its command."""
        if not machine.terminating:
            await self._reopen(machine)
            await self._take_off_record(machine)

    async def clean(self) -> None:
        """Open closed nodes that no command holds (DIS-02)."""
        # Also those of commands that are over: the mirror may not show yet that their nodes were opened.
        ours = [written.record for written in self._written.values()]
        held = {key for record in (*self.records(), *ours) for key in record.candidates}
        nodes = self.view.nodes()
        for machine in self.view.machines():
            node = nodes.get(machine.node_name)
            if node is None or machine.key in held or machine.terminating or node.terminating:
                continue
            if is_cordoned(node) or machine.has(DISRUPTION_REASON):
                log.warning("opening a node that no command holds", node=node.name)
                await self._release(machine)


def _is_held_by(machine: Machine, record: CommandRecord) -> bool:
    """Not by another command, whose record and taints must stay."""
    known = holder(machine)
    return known is None or known.id == record.id
