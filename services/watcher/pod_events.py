"""When a node last got or lost a pod: lastPodEventTime of its NodeClaim, which consolidateAfter waits on (DIS-21).

Seen from the watch: a pod is bound, finishes, or begins to leave; daemons do not count. At a start every pod is new to
us; then its own start time counts, so that a restart of the watcher does not begin every wait anew. A write that is
lost is made up for by the next pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from services.watcher.members import Member
from shared.clock import Clock, rfc3339
from shared.domain.nodepools import V1
from shared.domain.pods import Pod
from shared.errors import Conflict, NotFound
from shared.kube.client import Kube
from shared.kube.resources import NODE_CLAIMS

WRITE_SECONDS = 10.0
"""DIS-21: at most one write per claim in this time."""


@dataclass
class PodEvents:
    """Notes what happens to pods, writes it to their claims now and then."""

    clock: Clock
    latest: dict[str, float] = field(default_factory=dict)
    """Node name -> time of its last event, not written yet."""
    _seen: dict[str, tuple[str, bool]] = field(default_factory=dict)
    """Pod UID -> (its node, whether it is over or leaving)."""

    def note(self, pod: Pod, *, gone: bool, first: bool) -> None:
        """A pod as it is now. ``first``: it comes from the first list, so when it was bound is its own word."""
        before = self._seen.get(pod.uid, ("", False))
        over = gone or pod.is_terminal or pod.terminating
        if gone:
            self._seen.pop(pod.uid, None)
        else:
            self._seen[pod.uid] = pod.node_name, over
        if pod.is_daemon or not pod.node_name or before == (pod.node_name, over):
            return
        if gone and before[1]:
            return  # its end was noted when it began to leave
        at = pod.started_at if first else self.clock.now()
        self.latest[pod.node_name] = max(at, self.latest.get(pod.node_name, 0.0))

    async def write(self, kube: Kube, machines: Iterable[Member]) -> None:
        """Write what is due. Raises TransientError; what was not written stays noted."""
        for machine, at in due_writes(machines, self.latest):
            body = {
                "metadata": {"uid": machine.uid},
                "status": {"lastPodEventTime": rfc3339(at)},
            }
            try:
                await kube.patch(NODE_CLAIMS, machine.name, body, subresource="status")
            except (NotFound, Conflict):
                continue
        self.latest.clear()


def due_writes(
    machines: Iterable[Member], latest: Mapping[str, float]
) -> list[tuple[Member, float]]:
    """The claims whose node had an event at least ten seconds after the one they tell, with its time."""
    return [
        (machine, at)
        for machine in machines
        if machine.generation_api == V1
        and not machine.terminating
        and (at := latest.get(machine.node_name, 0.0)) >= machine.last_pod_event_at + WRITE_SECONDS
    ]
