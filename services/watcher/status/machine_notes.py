"""Notes on machines about what the watches showed: which node joined, and when its node last got or lost a pod.

Which node joined (LCH-73, F24): the launcher registers a node within a second, and from then on its end is noticed. A
node that is deleted before that would leave no trace: its machine would look as if its instance were still booting, and
would block pods and money for the whole registration timeout. So the machine of a node that was deleted unregistered,
or that stayed so for some seconds, gets an annotation with the node's name; the launcher then looks for that node as
for a registered one. What may go wrong: the watcher dies within these seconds, and the node is deleted before it is
back. Then the registration timeout ends the machine. A standby notes the same nodes, and writes when it leads.

lastPodEventTime of a NodeClaim, which consolidateAfter waits on (DIS-21): a pod is bound, finishes, or begins to leave;
daemons do not count. At a start every pod is new to us; then its own start time counts, so that a restart of the
watcher does not begin every wait anew. The next pod makes up for a lost write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from services.watcher.mirror.journal import Journal
from services.watcher.mirror.members import Member
from shared.concurrency.clock import Clock, credible, rfc3339
from shared.domain import labels as keys
from shared.domain.machines.machine import REGISTERED, Machine
from shared.domain.nodes import Node, provider_instance_id
from shared.domain.records import MACHINES, decode_record
from shared.domain.workloads.pods import Pod
from shared.errors import Conflict, InvalidObject, NotFound
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.resources import NODE_CLAIMS
from shared.log import get_logger

log = get_logger(__name__)

UNREGISTERED_SECONDS = 5.0
"""A node that the launcher registers at once costs no write."""
REMEMBERED_SECONDS = 900.0
"""Of a node that is gone: its machine may learn its own provider id only now."""
WRITE_SECONDS = 10.0
"""At most one write per NodeClaim in this time (DIS-21)."""


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


@dataclass
class PodEvents:
    """Notes what happens to pods; ``write`` puts it on their NodeClaims."""

    clock: Clock
    latest: dict[str, float] = field(default_factory=dict)
    """Node name -> time of its last event, not written yet."""
    _seen: dict[str, tuple[str, bool]] = field(default_factory=dict)
    """UID of a pod that is no daemon -> (its node, whether it is over or leaving)."""

    def note(self, pod: Pod, *, first: bool) -> None:
        """A pod as it is now. ``first``: it is from the first list, so the pod itself says when it was bound."""
        if pod.is_daemon:
            return
        before = self._seen.get(pod.uid, ("", False))
        after = self._seen[pod.uid] = pod.node_name, pod.is_terminal or pod.terminating
        if pod.node_name and before != after:
            self._event(pod.node_name, pod.started_at if first else self.clock.now())

    def forget(self, uid: str) -> None:
        """A pod is gone. One that was leaving was an event when it began to."""
        node, over = self._seen.pop(uid, ("", True))
        if node and not over:
            self._event(node, self.clock.now())

    def _event(self, node: str, at: float) -> None:
        self.latest[node] = max(at, self.latest.get(node, 0.0))

    async def write(self, kube: Kube, machines: Iterable[Member]) -> None:
        """Write what is due. Raises TransientError; what was not written stays noted."""
        for machine, at in due_writes(machines, self.latest, now=self.clock.now()):
            body = {
                "metadata": {"uid": machine.uid},
                "status": {"lastPodEventTime": rfc3339(at)},
            }
            try:
                await kube.patch(NODE_CLAIMS, machine.name, body, subresource="status")
            except (NotFound, Conflict, InvalidObject) as error:
                log.debug("time of a pod event not written", claim=machine.name, error=str(error))
        self.latest.clear()


def due_writes(
    machines: Iterable[Member], latest: Mapping[str, float], *, now: float
) -> list[tuple[Member, float]]:
    """The NodeClaims whose node had an event ten seconds or more after the one they show, with its time.

    One that shows a time far in the future, of a watcher with a wrong clock, counts as showing none.
    """
    return [
        (machine, at)
        for machine in machines
        if machine.api.detailed_status
        and not machine.terminating
        and (at := latest.get(machine.node_name, 0.0))
        >= credible(machine.last_pod_event_at, now=now, otherwise=0.0) + WRITE_SECONDS
    ]
