"""The console's parts and what they do on a timer. Nothing here decides anything about the cluster."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import msgspec

from services.console.feed.feed import Feed, Trust
from services.console.feed.history import History, pack
from services.console.picture.picture import KINDS, Picture
from services.console.reports.cost import CostHistory, cost_of
from services.console.reports.decisions import Decisions
from services.console.reports.health import Health
from services.console.reports.interruptions import interruptions
from services.console.reports.node_details import node_details
from services.console.reports.peers import Peers
from services.console.reports.pod_details import pod_details
from services.console.reports.queues import queues
from shared.concurrency.clock import Clock
from shared.domain.records import PODS, decode_record
from shared.kube.client import Kube
from shared.log import get_logger
from shared.redis.bus import Bus
from shared.redis.mirror import Change, MirrorReader
from shared.redis.mirror.trust import not_synced

log = get_logger(__name__)

PATIENCE_SECONDS = 5.0
"""A doubt about the mirror that lasts for less is about to be settled."""
MOST_MARKS = 200
REPACK_SECONDS = 60.0


@dataclass
class Console:
    """All that the loops and the routes use."""

    picture: Picture
    feed: Feed
    history: History
    peers: Peers
    health: Health
    bus: Bus
    kube: Kube
    clock: Clock
    reader: MirrorReader
    max_age: float
    """Of the mirror, in seconds."""
    decisions: Decisions = field(default_factory=Decisions)
    costs: CostHistory = field(default_factory=CostHistory)
    repacked: dict[str, Any] = field(default_factory=dict)
    """The scheduler's answer about the cost of new machines, and its number of the feed."""
    unreadable: int = 0
    """Records of the mirror that could not be read."""

    def note(self, change: Change) -> None:
        """A change of the mirror. A record that cannot be read is left out, and the others are shown."""
        if change.kind not in KINDS:
            return
        try:
            self.picture.note(change.kind, change.key, change.body)
        except msgspec.MsgspecError as error:
            self.unreadable += 1
            log.warning(
                "a record cannot be shown", kind=change.kind, key=change.key, error=str(error)
            )

    def trust(self) -> Trust:
        """Whether the mirror can be relied on now."""
        now = self.clock.monotonic()
        why = not_synced(self.reader, now=now, max_age=self.max_age, patience=PATIENCE_SECONDS)
        return Trust(not why, why)

    async def record(self) -> None:
        """Take what changed into the feed and the history."""
        at = self.clock.now()
        body = self.feed.take(at, self.trust())
        if body is not None:
            self.history.add_change(at, body)
        if self.reader.complete and self.history.wants_picture(at):
            _, snapshot = self.feed.snapshot()
            self.history.add_picture(at, await asyncio.to_thread(pack, snapshot))

    async def poll(self) -> None:
        """Ask the other services how they are."""
        await self.peers.poll()
        for one in self.decisions.add(self.peers.statuses["scheduler"].document):
            log.debug("decision", id=one.get("id"), text=one.get("text"))

    async def sample(self) -> None:
        """Note what the cluster costs now."""
        rows = (self.picture.nodes.values(), self.picture.pods.values())
        self.costs.add(self.clock.now(), cost_of(*rows), self.repacked.get("bound"))

    async def repack(self) -> None:
        """Ask the scheduler what new machines would cost, if the cluster changed since the last answer.

        The answer costs the scheduler a plan of all pods in a process of its own: once in ``REPACK_SECONDS`` at most.
        """
        number, known = self.feed.number, self.repacked
        recent = self.clock.now() - known.get("at", 0.0) < REPACK_SECONDS
        if (
            not self.picture.nodes
            or known.get("number") == number
            or (known.get("bound") and recent)
        ):
            return
        found, problem = await self.peers.ask_scheduler("/explain", {"cost": "all"})
        if found is None:
            self.repacked = {"problem": problem}
        else:
            self.repacked = {**found, "number": number, "at": self.clock.now()}

    def cost(self) -> dict[str, Any]:
        """Now, by policy, and over time."""
        now = cost_of(self.picture.nodes.values(), self.picture.pods.values())
        known = self.repacked
        return {
            "now": now.document(),
            "bound": known.get("bound"),
            "boundText": bound_text(known),
            "policies": known.get("costs") or {},
            "series": self.costs.series(),
            "problem": known.get("problem", ""),
        }

    def past(self) -> dict[str, Any]:
        """From when to when moments can be shown, and the decisions in between as marks."""
        begin, end = self.history.span(self.clock.now()) or (self.clock.now(),) * 2
        decided = [one for one in self.decisions.documents() if one["at"] >= begin]
        marks = [{"at": one["at"], "text": one.get("text", "")} for one in decided[:MOST_MARKS]]
        return {"from": begin, "to": end, "marks": marks[::-1]}

    def interrupted(self) -> dict[str, Any]:
        """Announced interruptions."""
        status = self.peers.statuses["interruption"]
        picture = self.picture
        found = interruptions(
            status.document.get("recent") or (),
            picture.nodes,
            picture.pods.values(),
            self.decisions.targets(),
            now=self.clock.now(),
        )
        return {"interruptions": found, "problem": status.problem}

    def decided(self) -> dict[str, Any]:
        """The latest decisions."""
        problem = self.peers.statuses["scheduler"].problem
        return {"decisions": self.decisions.documents(), "problem": problem}

    async def node(self, row_id: str) -> dict[str, Any] | None:
        """Details; None for an unknown id."""
        return await node_details(self.picture, self.peers, self.kube, row_id)

    async def pod(self, key: str) -> dict[str, Any] | None:
        """Details; None for an unknown pod."""
        body = self.reader.kinds.get(PODS, {}).get(key)
        record = decode_record(PODS, body) if body is not None else None
        return await pod_details(self.picture, self.peers, self.kube, key, record)

    async def queues(self) -> dict[str, Any]:
        """Streams, groups and dead letters."""
        return await queues(self.bus, self.clock)

    def status(self) -> dict[str, object]:
        """For ``/status``."""
        return {
            "generation": self.reader.generation,
            "nodes": len(self.picture.nodes),
            "pods": len(self.picture.pods),
            "changes": self.feed.number,
            "unreadable": self.unreadable,
        }

    def missing(self) -> list[str]:
        """Why the page would not show the cluster as it is."""
        trust = self.trust()
        return [] if trust.ok else [trust.reason]


def bound_text(repacked: dict[str, Any]) -> str:
    """What the bound means, in one sentence; empty without one."""
    if repacked.get("bound") is None:
        return ""
    pods, unplaced = repacked.get("pods", 0), repacked.get("unplaced", 0)
    without = f" ({unplaced} of them fit on no new machine and are left out)" if unplaced else ""
    return (
        f"No set of new machines at today's prices holds the {pods} pods of managed nodes{without} for less; "
        "daemon sets are counted."
    )
