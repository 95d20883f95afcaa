"""When a node last got or lost a pod: lastPodEventTime of its NodeClaim, which consolidateAfter waits on (DIS-21).

Seen from the watch: a pod is bound, finishes, or begins to leave; daemons do not count. At a start every pod is new to
us; then its own start time counts, so that a restart of the watcher does not begin every wait anew. The next pod
makes up for a lost write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from services.watcher.mirror.members import Member
from shared.concurrency.clock import Clock, rfc3339
from shared.domain.workloads.pods import Pod
from shared.errors import Conflict, InvalidObject, NotFound
from shared.kube.client import Kube
from shared.kube.resources import NODE_CLAIMS
from shared.log import get_logger

log = get_logger(__name__)

WRITE_SECONDS = 10.0
"""At most one write per NodeClaim in this time (DIS-21)."""


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
        for machine, at in due_writes(machines, self.latest):
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
    machines: Iterable[Member], latest: Mapping[str, float]
) -> list[tuple[Member, float]]:
    """The NodeClaims whose node had an event ten seconds or more after the one they show, with its time."""
    return [
        (machine, at)
        for machine in machines
        if machine.api.detailed_status
        and not machine.terminating
        and (at := latest.get(machine.node_name, 0.0)) >= machine.last_pod_event_at + WRITE_SECONDS
    ]
