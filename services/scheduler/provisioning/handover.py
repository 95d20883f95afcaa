"""Passes the planner's placement on to kube-scheduler through ``status.nominatedNodeName`` (KEP-5278).

By itself kube-scheduler spreads pods over whatever nodes are there, and of a tight plan some pods then fit nowhere.
Promises are kept in memory only: after a restart nothing is nominated until the next plan, which costs packing quality
and nothing else. Nominations on pods are judged anew from the mirror.

A promised pod counts on its node or machine already, so that no later plan breaks up what an earlier one has put
together. docs/operating/settings.md has the figures.

What may go wrong: the pod is bound, gone or nominated by somebody else meanwhile (seen before the write, or the API
server refuses it; both end the matter); kube-scheduler takes the nomination back, as it does each time a pod
fits nowhere (written again as soon as the mirror shows that, a bounded number of times).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import compress

import msgspec

from services.scheduler.provisioning.nominations import (
    Homes,
    Nomination,
    Order,
    Promise,
    counted_on,
    followed,
    honours_nominations,
    newest,
    orders,
    promises_of,
    settle,
)
from services.scheduler.state.cluster import View
from shared.concurrency.clock import Clock
from shared.concurrency.parallel import in_parallel
from shared.concurrency.waiting import pause, pause_unless, woken_by
from shared.domain.workloads.pods import Pod
from shared.errors import Conflict, DovetailError, InvalidObject, NotFound
from shared.kube.client import Kube
from shared.kube.resources import PODS
from shared.log import get_logger
from shared.redis.mirror.pending_writes import PendingWrites
from shared.settings import SchedulerSettings
from shared.solver.plan import Plan

log = get_logger(__name__)

LEAST_PAUSE_SECONDS = 0.05
"""Changes of this time share a step: a node's pods are to be nominated before it is ready, but it changes often."""
PAUSES_PER_STEP = 4.0
"""A step of a large cluster takes long, and nodes change all the time there: most of the time is for others."""
STEP_SECONDS = 1.0
WRITES_AT_ONCE = 32
WRITES_PER_STEP = 100
"""The next step follows at once: a node that joins meanwhile has its turn before pods that are late already."""
MIRROR_LAG_SECONDS = 10.0
"""By then the mirror must show what we wrote; if it does not, it got lost or was taken back."""
PROBLEM_SECONDS = 10.0
MOST_TRIES = 3
MOST_TRIES_JOINING = 20
"""Before its node is ready kube-scheduler tries a pod without success at every event of another node, with a back-off
of 1 s to 10 s, and takes the nomination back each time."""
VERSION_SECONDS = 600.0
"""A control plane may be upgraded while we run."""


class Written(msgspec.Struct, frozen=True):
    """The node that we nominated last (empty: the nomination was taken back), and how often in a row."""

    node: str
    tries: int = 1


@dataclass
class Handover:
    """Owns the promises and the nominations that follow from them."""

    settings: SchedulerSettings
    view: View
    kube: Kube
    clock: Clock
    realised: Counter[str] = field(default_factory=Counter)
    """How many promised pods ended how: kept, elsewhere, not nominated, lapsed."""
    server: str = ""
    problem: str = ""
    """Why the API server does not take nominations from us."""
    last_progress: float = 0.0
    _honoured: bool = False
    _read_version_at: float = 0.0
    _quiet_until: float = 0.0
    _busy: float = 0.0
    """Seconds of the last step before its writes."""
    _hastened: asyncio.Event = field(default_factory=asyncio.Event)
    _promises: dict[str, Promise] = field(default_factory=dict)
    _nominations: dict[str, Nomination] = field(default_factory=dict)
    _written: dict[str, Written] = field(default_factory=dict)
    """By UID, of pods that wait."""
    _pending: PendingWrites[str, str] = field(default_factory=PendingWrites)
    """Pod UID -> node, until the mirror shows it: from then on the mirror knows better."""
    _refused: dict[str, str] = field(default_factory=dict)
    """Pod UID -> node that did not take it: not nominated a second time."""
    _bindable: dict[str, float] = field(default_factory=dict)
    """Node -> since when it can take pods (monotonic seconds), as first noticed."""

    @property
    def active(self) -> bool:
        """NOMINATE says so, or says auto and the server's scheduler listens. A shadow promises nothing."""
        if self.settings.shadow:
            return False
        return self.settings.nominate == "on" or (
            self.settings.nominate == "auto" and self._honoured
        )

    def status(self) -> dict[str, object]:
        """For ``/status``."""
        return {
            "setting": self.settings.nominate,
            "active": self.active,
            "server": self.server,
            "problem": self.problem,
            "promised": len(self._promises),
            "standing": len(self._nominations),
            "realised": dict(self.realised),
        }

    def promise(self, plan: Plan, created: Iterable[str], pods: Iterable[Pod]) -> None:
        """Remember where a plan puts its pods; a later plan replaces an earlier one."""
        if not self.active:
            return
        fresh = promises_of(plan, created, pods, now=self.clock.monotonic())
        kept = {uid: promise for uid, promise in self._promises.items() if uid not in fresh}
        self._promises = newest({**kept, **fresh})
        self.hasten()

    def hasten(self) -> None:
        """Nodes or machines changed: do not wait for the next step's time."""
        self._hastened.set()

    def settled(self, pods: Iterable[Pod]) -> list[Pod]:
        """``pods`` as the planner must count them, our last writes and promises included (POD-01)."""
        now = self.clock.monotonic()
        # Most pods of a large cluster run: they must cost no call.
        written = [pod if pod.node_name else self._as_written(pod, now) for pod in pods]
        homes = self._homes(written)
        promised = self._promised(written, homes, now)
        settled = settle(written, homes, self._nominations, now=now)
        return [
            msgspec.structs.replace(pod, node_name=promised[pod.uid])
            if not pod.node_name and pod.uid in promised
            else pod
            for pod in settled
        ]

    def _promised(self, pods: list[Pod], homes: Homes, now: float) -> dict[str, str]:
        if not self.active:
            return {}
        return counted_on(pods, self._promises, self._refused, homes, self._bindable, now=now)

    def nodes(self) -> set[str]:
        """Nodes that pods are nominated to: not empty, whatever runs there (BAT-11)."""
        return {nomination.node for nomination in self._nominations.values()}

    async def run(self, stop: asyncio.Event, not_synced: Callable[[], str]) -> None:
        """Step every second and when ``hasten`` was called, until ``stop``; never on a stale mirror (OPS-13)."""
        async with woken_by(stop, self._hastened):
            while not stop.is_set():
                self.last_progress = self.clock.monotonic()
                synced = not not_synced()
                if synced:
                    await self.step()
                await pause(stop, max(LEAST_PAUSE_SECONDS, PAUSES_PER_STEP * self._busy))
                if synced:
                    await pause_unless(self._hastened, STEP_SECONDS)

    async def step(self) -> None:
        """Nominate what can be nominated, take back what came to nothing."""
        await self._read_version()
        now = self.clock.monotonic()
        stored = self.view.pods()
        unbound = [pod for pod in stored if not pod.node_name]
        shown = {pod.uid: pod.nominated_node for pod in unbound}
        self._pending.unshown(lambda uid, node: shown.get(uid, node) == node, now=now)
        waiting = {pod.uid: self._as_written(pod, now) for pod in unbound}
        self._settle_promises(waiting, stored, now)
        homes = self._homes(stored)
        pods = (pod if pod.node_name else waiting[pod.uid] for pod in stored)
        self._nominations = followed(pods, homes, self._nominations, now=now) if waiting else {}
        able = filter(homes.can_bind, homes.nodes)
        self._bindable = {name: self._bindable.get(name, now) for name in able}
        self._written = {uid: one for uid, one in self._written.items() if uid in waiting}
        self._refused = {uid: node for uid, node in self._refused.items() if uid in waiting}
        known = (self._promises, homes, self._nominations, self._refused)
        found = orders(waiting, *known, now=now) if self.active else []
        self._busy = self.clock.monotonic() - now
        await self._write(found, homes)

    def _homes(self, pods: Iterable[Pod]) -> Homes:
        machines = self.view.machines()
        return Homes.of(self.view.nodes(), machines, pods)

    def _as_written(self, pod: Pod, now: float) -> Pod:
        node = self._pending.get(pod.uid, now=now)
        if node is None or pod.node_name:
            return pod
        return msgspec.structs.replace(pod, nominated_node=node)

    def _note(self, pod: Pod, node: str, tries: int = 1) -> None:
        self._written[pod.uid] = Written(node, tries)
        now = self.clock.monotonic()
        self._pending.note(pod.uid, node, now=now, most_seconds=MIRROR_LAG_SECONDS)

    def _settle_promises(self, waiting: dict[str, Pod], stored: Sequence[Pod], now: float) -> None:
        """Count what was realised; drop promises to pods that are placed or gone, and old ones."""
        over = (uid not in waiting or one.until <= now for uid, one in self._promises.items())
        ended = dict.fromkeys(compress(self._promises, over))
        if not ended:
            return
        places = {pod.uid: pod.node_name for pod in stored if pod.uid in ended}
        for uid in ended:
            del self._promises[uid]
            if place := places.get(uid):
                last = self._written.get(uid)
                met = "kept" if last and last.node == place else "elsewhere"
                self.realised[met if last and last.node else "not nominated"] += 1

    async def _write(self, desired: list[Order], homes: Homes) -> None:
        """The first of ``desired``; an API server that refuses us is left alone for a while."""
        if self.clock.monotonic() < self._quiet_until:
            return
        self.problem = ""

        async def write(order: Order) -> None:
            if not self.problem:
                await self._write_one(order, homes)

        await in_parallel(map(write, desired[:WRITES_PER_STEP]), most=WRITES_AT_ONCE)
        if len(desired) > WRITES_PER_STEP:
            self.hasten()

    async def _write_one(self, order: Order, homes: Homes) -> None:
        pod, node = order.pod, order.node
        try:
            await (self._nominate(pod, node, homes) if node else self._end(pod))
        except (NotFound, Conflict, InvalidObject) as error:
            log.info("overtaken by a change", pod=pod.key, error=error.message)
            self._refused[pod.uid] = node or pod.nominated_node
            self._written.pop(pod.uid, None)  # what we believed of it was wrong
            self._pending.discard(pod.uid)
        except DovetailError as error:
            log.warning("cannot nominate", pod=pod.key, error=error.message)
            self.problem = str(error)
            self._quiet_until = self.clock.monotonic() + PROBLEM_SECONDS

    async def _nominate(self, pod: Pod, node: str, homes: Homes) -> None:
        last, joining = self._written.get(pod.uid), node in homes.joining
        tries = last.tries + 1 if last and last.node == node else 1
        if tries > (MOST_TRIES_JOINING if joining else MOST_TRIES):
            self._refused[pod.uid] = node
            return
        if not joining:
            await self._check_waits(pod)
        body = {"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node}}
        await self.kube.patch(PODS, pod.name, body, pod.namespace, subresource="status")
        self._note(pod, node, tries)

    async def _check_waits(self, pod: Pod) -> None:
        """A node that can take pods may have taken this one. Raises Conflict, NotFound."""
        stored = await self.kube.get(PODS, pod.name, pod.namespace)
        if bound := (stored.get("spec") or {}).get("nodeName"):
            raise Conflict(f"{pod.key} is on node {bound} already")

    async def _end(self, pod: Pod) -> None:
        """Only what we judged: a nomination that changed meanwhile stays."""
        path = "/status/nominatedNodeName"
        operations = [
            {"op": "test", "path": "/metadata/uid", "value": pod.uid},
            {"op": "test", "path": path, "value": pod.nominated_node},
            {"op": "remove", "path": path},
        ]
        self._refused[pod.uid] = pod.nominated_node
        await self.kube.json_patch(PODS, pod.name, operations, pod.namespace, subresource="status")
        self._note(pod, "")
        self.realised["lapsed"] += 1
        log.info("nomination came to nothing", pod=pod.key, node=pod.nominated_node)

    async def _read_version(self) -> None:
        """Once, and now and then: does the scheduler of this server listen? An error means no."""
        now = self.clock.monotonic()
        if self.settings.nominate != "auto" or now < self._read_version_at:
            return
        self._read_version_at = now + VERSION_SECONDS
        try:
            version = await self.kube.version()
        except DovetailError as error:
            log.warning("cannot read the server's version", error=error.message)
            self._read_version_at = now + PROBLEM_SECONDS
            return
        self.server, self._honoured = str(version.get("gitVersion")), honours_nominations(version)
