"""The console's parts and what they do on a timer. Nothing here decides anything about the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from services.console.feed.feed import Feed, Trust
from services.console.feed.history import History, pack
from services.console.picture.picture import KINDS, Picture
from services.console.picture.rows import PodRow
from services.console.recorded_hour import BOUNDS, HourQuestion, read_hour
from services.console.reports.advice import Advice
from services.console.reports.cost import CostHistory, cost_of
from services.console.reports.decisions import Decisions, decision_id
from services.console.reports.evacuations import Evacuations
from services.console.reports.health import Health
from services.console.reports.interruptions import interruptions
from services.console.reports.ledgers import PATHS, Ledgers
from services.console.reports.node_details import node_details
from services.console.reports.peers import NOT_ASKED, Peers
from services.console.reports.pod_details import change_text, pod_details
from services.console.reports.prices import Prices
from services.console.reports.queues import queues
from services.console.reports.repacked import Repacked
from shared.concurrency.clock import Clock
from shared.domain.records import PODS, decode_record
from shared.domain.workloads.pods import Pod
from shared.errors import DovetailError
from shared.kube.client import Kube
from shared.log import get_logger
from shared.redis.bus import Bus
from shared.redis.mirror import Change, MirrorReader
from shared.redis.mirror.trust import not_synced
from shared.runtime.archive.place import ArchivePlace
from shared.runtime.child import in_child

log = get_logger(__name__)

PATIENCE_SECONDS = 5.0
"""A doubt about the mirror that lasts for less is about to be settled."""
OLD_SECONDS = 15.0
"""A picture whose watcher is silent for longer is called old: its heartbeats are two seconds apart."""
OLD = (
    f"the watcher has not been heard for more than {OLD_SECONDS:.0f} s: are Redis and the watcher "
    "running?"
)
MOST_MARKS = 200
QUESTION_SECONDS = 10.0
"""Between two questions that nobody asked for by hand: each one costs the scheduler a plan in a process of its own."""
MOST_RECALLS = 3
"""Attempts to read the recorded hour."""
RECALL_AGAIN_SECONDS = 60.0
REFUSED_SECONDS = 30.0
"""After a question that was not answered."""


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
    archive: ArchivePlace
    """Where the scheduler records; an empty address: nowhere that this console can read."""
    decisions: Decisions = field(default_factory=Decisions)
    costs: CostHistory = field(default_factory=CostHistory)
    repacked: Repacked = field(default_factory=Repacked)
    evacuations: Evacuations = field(default_factory=Evacuations)
    advice: Advice = field(default_factory=Advice)
    prices: Prices = field(default_factory=Prices)
    ledgers: Ledgers = field(default_factory=Ledgers)
    unreadable: dict[tuple[str, str], str] = field(default_factory=dict)
    """(kind, key) -> why this record of the mirror cannot be read. It is shown as it last was."""
    past_problem: str = ""
    """Why the hour before the start cannot be shown; empty: it can, or is not recorded."""
    _recalls_left: int = MOST_RECALLS
    _next_recall: float = 0.0
    _next_question: float = 0.0
    """When the scheduler may be asked again, in seconds since the epoch."""

    def note(self, change: Change) -> None:
        """A change of the mirror. A record that cannot be read does not stop the others."""
        if change.kind not in KINDS:
            return
        try:
            self.picture.note(change.kind, change.key, change.body)
            self.unreadable.pop((change.kind, change.key), None)
        except msgspec.MsgspecError as error:
            self.unreadable[change.kind, change.key] = str(error)
            log.warning(
                "a record cannot be shown", kind=change.kind, key=change.key, error=str(error)
            )

    def trust(self) -> Trust:
        """Whether the picture can be relied on now."""
        age = self.reader.age(self.clock.monotonic())
        old = OLD if self.reader.complete and age > OLD_SECONDS else ""
        why = old or self._not_synced() or _unreadable_text(self.unreadable)
        return Trust(not why, why, self._missing_reasons(), self._heard())

    def _heard(self) -> int:
        now = self.clock.monotonic()
        found = (self.reader.position(plural, now) for plural in self.reader.watched())
        return int(min((one.seconds for one in found if one is not None), default=0.0)) // 10 * 10

    def _missing_reasons(self) -> str:
        problem = self.peers.statuses["scheduler"].problem
        if not problem or problem == NOT_ASKED:
            return ""
        return f"Why pods are pending is not known: the scheduler {problem}"

    def _not_synced(self) -> str:
        now = self.clock.monotonic()
        return not_synced(self.reader, now=now, max_age=self.max_age, patience=PATIENCE_SECONDS)

    async def record(self) -> None:
        """Take what changed into the feed and the history."""
        at = self.clock.now()
        body = self.feed.take(at, self.trust())
        self.evacuations.note(self.picture, self._announced(), at)
        if body is not None:
            self.history.add_change(at, body)
        if self.reader.complete and self.history.wants_picture(at):
            _, snapshot = self.feed.snapshot(at)
            self.history.add_picture(at, await asyncio.to_thread(pack, snapshot))

    async def recall(self) -> None:
        """Take the hour before the first picture from the scheduler's records, once."""
        now = self.clock.now()
        span = self.history.span(now)
        due = self._recalls_left and now >= self._next_recall
        if span is None or not self.archive.address or not due:
            return
        self._recalls_left -= 1
        self._next_recall = now + RECALL_AGAIN_SECONDS
        try:
            found = await in_child(read_hour, HourQuestion(self.archive, span[0]), BOUNDS)
        except DovetailError as error:
            self.past_problem = str(error)
            log.warning("the recorded hour cannot be shown", error=str(error))
            return
        self._recalls_left, self.past_problem = 0, ""
        self.history.put_before(found.history)
        self.decisions.add_recorded(found.decisions)

    async def poll(self) -> None:
        """Ask the other services how they are."""
        await self.peers.poll()
        for one in self.decisions.add(self.peers.statuses["scheduler"].document):
            log.debug("decision", id=one.get("id"), text=one.get("text"))
        self._explain_pods()

    def _pending(self) -> list[PodRow]:
        return [row for row in self.picture.pods.values() if row.state == "pending"]

    def _explain_pods(self) -> None:
        """A scheduler that is away says nothing: its last reasons may be wrong by now."""
        status = self.peers.statuses["scheduler"]
        self.advice.verdicts = {} if status.problem else status.document.get("unschedulable") or {}
        self.picture.explain(self.advice.words(self._pending()))

    async def ask(self) -> None:
        """Ask the scheduler what nobody has asked it yet: only while somebody looks, and one thing at a time."""
        now = self.clock.monotonic()
        if not self.feed.readers or now < self._next_question:
            return
        row = self.advice.next(self._pending(), now)
        decision = None if row else self.prices.next(self.decisions.documents())
        if row is None and decision is None:
            return
        done = await (self._ask_change(row) if row else self._ask_prices(str(decision)))
        pause = QUESTION_SECONDS if done else REFUSED_SECONDS
        self._next_question = self.clock.monotonic() + pause

    async def _ask_change(self, row: PodRow) -> bool:
        found, _ = await self.peers.ask_scheduler("/explain", {"pod": row.id})
        if found is not None:
            self.advice.take(row, change_text(found), self.clock.monotonic())
            self._explain_pods()
        return found is not None

    async def _ask_prices(self, row_id: str) -> bool:
        found = await self.decision(row_id) or {"policies": {}}
        self.prices.take(row_id, found["policies"])
        return bool(found["policies"])

    async def sample(self) -> None:
        """Note what the cluster costs now."""
        rows = (self.picture.nodes.values(), self.picture.pods.values())
        self.costs.add(self.clock.now(), cost_of(*rows), self.repacked.bound)

    async def repack(self) -> None:
        """Ask the scheduler what new machines would cost, if the cluster changed since its last answer."""
        number = self.feed.number
        if not self.picture.nodes or not self.repacked.is_due(number, self.clock.monotonic()):
            return
        found, problem = await self.peers.ask_scheduler("/explain", {"cost": "all"})
        if found is None:
            self.repacked.fail(problem, self.clock.monotonic())
        else:
            self.repacked.take(found, number, self.clock.monotonic())

    async def ask_ledgers(self) -> None:
        """Ask the scheduler for the ledgers that somebody looks at, one after the other."""
        for name in self.ledgers.due(self.clock.monotonic()):
            found, problem = await self.peers.ask_scheduler(PATHS[name])
            self.ledgers.kept[name].take(found, problem, self.clock.monotonic())

    def ledger(self) -> dict[str, Any]:
        """What rules cost and what consolidations saved."""
        return self.ledgers.shown(self.clock.monotonic())

    def cost(self) -> dict[str, Any]:
        """Now, by policy, and over time."""
        now = cost_of(self.picture.nodes.values(), self.picture.pods.values())
        known = self.repacked
        return {
            "now": now.document(),
            "bound": known.bound,
            "boundText": known.text(self.feed.number, self.clock.monotonic()),
            "policies": known.policies,
            "series": self.costs.series(),
            "problem": known.problem,
        }

    def past(self) -> dict[str, Any]:
        """From when to when moments can be shown, and the decisions in between as marks."""
        begin, end = self.history.span(self.clock.now()) or (self.clock.now(),) * 2
        decided = [one for one in self.decisions.documents() if one["at"] >= begin]
        marks = [{"at": one["at"], "text": one.get("text", "")} for one in decided[:MOST_MARKS]]
        return {"from": begin, "to": end, "marks": marks[::-1]}

    def interrupted(self) -> dict[str, Any]:
        """Announced interruptions."""
        found = interruptions(
            self._notices(),
            self.picture,
            self.evacuations,
            self.decisions.targets(),
            now=self.clock.now(),
        )
        return {"interruptions": found, "problem": self.peers.statuses["interruption"].problem}

    def _notices(self) -> Sequence[Mapping[str, Any]]:
        """What the interruption service was announced lately."""
        return self.peers.statuses["interruption"].document.get("recent") or ()

    def _announced(self) -> set[str]:
        return {str(notice.get("machine")) for notice in self._notices()}

    def decided(self) -> dict[str, Any]:
        """The latest decisions."""
        problem = self.peers.statuses["scheduler"].problem
        rows = self.decisions.documents()
        priced = [{**one, "policies": self.prices.of(one["id"])} for one in rows]
        return {"decisions": priced, "problem": problem}

    async def node(self, row_id: str) -> dict[str, Any] | None:
        """Details; None for an unknown id."""
        return await node_details(self.picture, self.peers, self.kube, self.decisions, row_id)

    async def pod(self, key: str) -> dict[str, Any] | None:
        """Details; None for an unknown pod."""
        return await pod_details(self.picture, self.peers, self.kube, key, self._pod_record(key))

    def _pod_record(self, key: str) -> Pod | None:
        """None also for a record that cannot be read."""
        body = self.reader.bodies(PODS).get(key)
        try:
            return decode_record(PODS, body) if body is not None else None
        except msgspec.MsgspecError:
            return None

    async def decision(self, row_id: str) -> dict[str, Any] | None:
        """What one decision would have cost by each policy. ``row_id``: as in ``decided``; None if it cannot be one."""
        if known := self.prices.of(row_id):
            return {"policies": known, "problem": ""}
        decision = decision_id(row_id)
        if not decision:
            return None
        found, problem = await self.peers.ask_scheduler("/explain", {"decision": decision})
        return {"policies": (found or {}).get("policies") or {}, "problem": problem}

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
            "unreadable": len(self.unreadable),
            "pastProblem": self.past_problem,
        }

    def missing(self) -> list[str]:
        """Why the page would not show the cluster as it is."""
        return list(filter(None, [self._not_synced()]))


def _unreadable_text(unreadable: Mapping[tuple[str, str], str]) -> str:
    """Empty for none."""
    for (kind, key), why in unreadable.items():
        more = f" and {len(unreadable) - 1} more" if len(unreadable) > 1 else ""
        return f"{kind} {key}{more} cannot be read and is shown as it last was: {why}"
    return ""
