"""Writes on a machine which node joined, while that can still be seen (LCH-73, F24).

The launcher registers a node within a second, and from then on its end is noticed. A node that is deleted before that
would leave no trace: its machine would look as if its instance were still booting, and would block pods and money for
the whole registration timeout. So the machine of a node that was deleted unregistered, or that stayed so for some
seconds, gets an annotation with the node's name; the launcher then looks for that node as for a registered one.

What may go wrong: the watcher dies within these seconds, and the node is deleted before it is back. Then the
registration timeout ends the machine. A standby notes the same nodes, and writes when it leads.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from services.watcher.mirror.journal import Journal
from shared.concurrency.clock import Clock
from shared.domain import labels as keys
from shared.domain.machines.machine import REGISTERED, Machine
from shared.domain.nodes import Node, provider_instance_id
from shared.domain.records import MACHINES, decode_record
from shared.errors import Conflict, InvalidObject, NotFound
from shared.kube.machines import Machines
from shared.log import get_logger

log = get_logger(__name__)

UNREGISTERED_SECONDS = 5.0
"""A node that the launcher registers at once costs no write."""
REMEMBERED_SECONDS = 900.0
"""Of a node that is gone: its machine may learn its own provider id only now."""


@dataclass
class Joined:
    """One node that is not registered. ``at``: monotonic seconds when it was first seen, or when it went."""

    provider_id: str
    at: float
    gone: bool = False
    written: bool = False
    """Its machine has the annotation."""


@dataclass
class JoinedNodes:
    """Notes nodes as they change; ``write`` annotates their machines."""

    clock: Clock
    _nodes: dict[str, Joined] = field(default_factory=dict)
    """By name: of a node that went between two lists nothing else is known."""

    def note(self, name: str, node: Node | None) -> None:
        """A node as it is now; None: it is gone, or cannot be read."""
        known = self._nodes.get(name)
        if node is None:
            if known is not None and not known.gone:
                known.gone, known.at = True, self.clock.monotonic()
        elif node.is_registered:
            self._nodes.pop(name, None)
        elif provider_instance_id(node.provider_id) and (
            known is None or known.gone or known.provider_id != node.provider_id
        ):
            self._nodes[name] = Joined(node.provider_id, self.clock.monotonic())

    async def write(self, journal: Journal, store: Machines) -> None:
        """Annotate the machines that are due. Raises TransientError; what was not written stays noted."""
        now = self.clock.monotonic()
        due = {
            name: one
            for name, one in self._nodes.items()
            if not one.written and (one.gone or now - one.at >= UNREGISTERED_SECONDS)
        }
        keys_by_id = {m.provider_id: m.key for m in journal.machines()} if due else {}
        for name, one in due.items():
            body = journal.records[MACHINES].get(keys_by_id.get(one.provider_id, ""))
            if body is not None:
                await _annotate(decode_record(MACHINES, body), name, store)
                one.written = True
        self._forget(now)

    def _forget(self, now: float) -> None:
        self._nodes = {
            name: one
            for name, one in self._nodes.items()
            if not one.gone or not (one.written or now - one.at >= REMEMBERED_SECONDS)
        }


async def _annotate(machine: Machine, node: str, store: Machines) -> None:
    written = machine.annotations.get(keys.JOINED_ANNOTATION) == node
    if written or machine.has(REGISTERED) or machine.terminating:
        return
    try:
        await store.patch(machine, {"annotations": {keys.JOINED_ANNOTATION: node}})
    except (NotFound, Conflict, InvalidObject) as error:
        log.info("machine changed meanwhile", machine=machine.name, error=error.message)
