"""Offers disruption commands whose pools require approval, and starts only those that were approved.

All starts go through ``start``. The approval is spent before its command begins, so it counts once whatever happens
then; when Redis does not answer, nothing that needs an approval starts.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec.structs import replace

from services.scheduler.approval.documents import report, without_names
from services.scheduler.approval.reporting import ApprovalReporter
from services.scheduler.approval.webhook import Webhook
from services.scheduler.state.cluster import View
from services.scheduler.state.decisions import Rejected
from shared.concurrency.clock import Clock
from shared.disruption.approval import (
    DROPPED,
    MOST_OFFERS,
    STARTED,
    Answer,
    End,
    Offer,
    Outcome,
    approval_for,
    end_of,
    held,
    next_approved,
    offer_of,
    requiring_pools,
    surplus,
)
from shared.disruption.records import BUDGET, Command, Verdict, World
from shared.domain.pools.generations import Generation
from shared.errors import TransientError
from shared.log import get_logger
from shared.redis.mirror.pools.approvals import ApprovalStore
from shared.settings import SchedulerSettings

log = get_logger(__name__)

Start = Callable[[Command, str, World, Sequence[Rejected]], Awaitable[bool]]
UNASKED_SECONDS = 30.0
"""Where no pool asks for approvals and none is known, Redis is asked this seldom: only what an earlier leader left can
be there."""
ROLLED_BACK = "it could not be started"


@dataclass
class Approvals:
    """The offers, as Redis has them. ``begin``: starts a command."""

    settings: SchedulerSettings
    clock: Clock
    view: View
    store: ApprovalStore
    reporter: ApprovalReporter
    begin: Start
    webhook: Webhook | None = None
    """Gets each offer; None: there is no webhook."""
    offers: dict[str, Offer] = field(default_factory=dict)
    """By id."""
    _strange: set[str] = field(default_factory=set)
    """Ids in Redis that no offer was read for; the leader removes them."""
    _later: dict[str, float] = field(default_factory=dict)
    """Ids of approved offers that wait for their budgets -> when they are tried again, in monotonic seconds."""
    _loaded_at: float = -math.inf
    """In monotonic seconds."""

    async def load(self) -> None:
        """Read the offers and answers; without Redis those of before count."""
        now = self.clock.monotonic()
        if not self._may_exist() and now < self._loaded_at + UNASKED_SECONDS:
            return
        try:
            offers, answers = await self.store.load()
        except TransientError as error:
            log.warning("approvals not known", error=error.message)
            return
        self._loaded_at = now
        found = {id_: _offer(id_, body, answers.get(id_)) for id_, body in offers.items()}
        self.offers = {id_: offer for id_, offer in found.items() if offer is not None}
        self._strange = {*offers, *answers} - self.offers.keys()

    def _may_exist(self) -> bool:
        known = bool(self.offers) or bool(self._strange)
        return known or any(pool.approval for pool in self.view.pools().values())

    async def tidy(self) -> None:
        """End what has waited long enough or has no sense any more."""
        pools = self.view.pools()
        machines = {m.uid for m in self.view.machines() if not m.terminating}
        for offer in list(self.offers.values()):
            end = end_of(offer, pools, machines, now=self.clock.now())
            if end is not None and await self._end(offer, end):
                await self.reporter.ended(offer, end)
        old = {offer.id for offer in surplus(self.offers.values())}
        await self._remove(old | self._strange)
        self._strange = set()
        self.reporter.count(self.waiting())

    def waiting(self) -> list[Offer]:
        """Those that are not ended, oldest first."""
        found = [offer for offer in self.offers.values() if offer.ended is None]
        return sorted(found, key=lambda offer: (offer.offered_at, offer.id))

    def held(self, besides: Command | None = None) -> set[str]:
        """UIDs of machines that are in no other command now. ``besides``: the command that is validated."""
        mine = {c.machine.uid for c in besides.candidates} if besides else set()
        found = held(self.offers.values(), mine)
        if len(self.waiting()) >= MOST_OFFERS:
            requiring = {key for key, pool in self.view.pools().items() if pool.approval}
            found |= {m.uid for m in self.view.machines() if m.pool_key in requiring} - mine
        return found

    def approved(self, generation: Generation) -> Command | None:
        """The next command that may be validated and started."""
        now = self.clock.monotonic()
        later = {id_ for id_, at in self._later.items() if now < at}
        self._later = {id_: at for id_, at in self._later.items() if id_ in later}
        found = next_approved(self.offers.values(), generation, now=self.clock.now(), later=later)
        return found.command if found else None

    async def start(
        self, command: Command, id_: str, world: World, rejected: Sequence[Rejected] = ()
    ) -> bool:
        """Start the command, or offer it. False: it does not run."""
        if not requiring_pools(command):
            return await self.begin(command, id_, world, rejected)
        offer = approval_for(command, self.offers.values(), now=self.clock.now())
        if offer is None:
            await self._offer(command, id_)
            return False
        if not await self._end(offer, End(STARTED, "")):
            return False
        self.reporter.started(offer)
        begun = await self.begin(command, id_, world, rejected)
        if not begun:
            await self._end(self.offers[offer.id], End(DROPPED, ROLLED_BACK))
        return begun

    async def postpones(self, command: Command, verdict: Verdict) -> bool:
        """A validation found the command not right: an approved one ends, unless it only lacks room in its budgets.
        Then it is tried again later."""
        offer = approval_for(command, self.offers.values(), now=self.clock.now())
        if offer is None:
            return False
        if verdict.cause is BUDGET:
            self._later[offer.id] = self.clock.monotonic() + self.settings.disruption_period
            return True
        end = End(DROPPED, verdict.text)
        if await self._end(offer, end):
            await self.reporter.ended(offer, end)
        return False

    async def answer(self, id_: str, answer: Answer) -> tuple[Offer | None, bool]:
        """The offer with its answer, and whether it is this one; None for an unknown offer. Any replica may do this.
        Raises TransientError."""
        offer = await self.find(id_)
        if offer is None or offer.outcome is not Outcome.WAITING or answer.at >= offer.expires_at:
            return offer, False
        if not await self.store.answer(id_, msgspec.json.encode(answer)):
            return replace(offer, answer=await self._answer_of(id_)), False
        offer = replace(offer, answer=answer)
        self.offers[id_] = offer
        await self.reporter.answered(offer, answer)
        return offer, True

    async def find(self, id_: str) -> Offer | None:
        """As Redis has it; None for an unknown offer. Raises TransientError."""
        stored = await self.store.load()
        body = stored.offers.get(id_)
        return None if body is None else _offer(id_, body, stored.answers.get(id_))

    async def report(self) -> dict[str, Any]:
        """All offers, as Redis has them now, with who answered and when. Raises TransientError."""
        stored = await self.store.load()
        read = (_offer(id_, body, stored.answers.get(id_)) for id_, body in stored.offers.items())
        return report(filter(None, read))

    def status(self) -> dict[str, Any]:
        """For ``/status``, which everybody may read: without names."""
        known = report(self.offers.values())
        return {name: [without_names(one) for one in found] for name, found in known.items()}

    async def _answer_of(self, id_: str) -> Answer | None:
        body = (await self.store.load()).answers.get(id_)
        return None if body is None else msgspec.json.decode(body, type=Answer)

    async def _offer(self, command: Command, id_: str) -> None:
        uids = {c.machine.uid for c in command.candidates}
        if uids & self.held():
            log.info("machine is in an offer already", command=command.text)
            return
        seconds = self.settings.approval_expiry
        offer = offer_of(command, id_, now=self.clock.now(), seconds=seconds)
        if await self._put(offer):
            await self.reporter.offered(offer)
            self.reporter.count(self.waiting())
            if self.webhook is not None:
                self.webhook.offered(offer)

    async def _end(self, offer: Offer, end: End) -> bool:
        """False: it could not be stored, so it did not end."""
        now = self.clock.now()
        return await self._put(replace(offer, ended=end.outcome, ended_at=now, why=end.why))

    async def _put(self, offer: Offer) -> bool:
        try:
            await self.store.put(offer.id, msgspec.json.encode(replace(offer, answer=None)))
        except TransientError as error:
            log.warning("approval not stored", offer=offer.id, error=error.message)
            return False
        self.offers[offer.id] = offer
        return True

    async def _remove(self, ids: Collection[str]) -> None:
        try:
            await self.store.remove(ids)
        except TransientError as error:
            log.warning("approvals not forgotten", error=error.message)
            return
        for id_ in ids:
            self.offers.pop(id_, None)


def _offer(id_: str, body: bytes, answer: bytes | None) -> Offer | None:
    """None for what cannot be read, such as an offer of another version: it is offered again."""
    try:
        offer = msgspec.json.decode(body, type=Offer)
        found = None if answer is None else msgspec.json.decode(answer, type=Answer)
    except msgspec.MsgspecError as error:
        log.warning("offer cannot be read", offer=id_, error=str(error)[:200])
        return None
    return replace(offer, answer=found)
