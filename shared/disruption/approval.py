"""Which disruption commands wait until somebody approves them, and what becomes of them meanwhile. Pure.

A command of a pool with ``dovetail.sh/approval`` is offered instead of started. Its machines are in no other command
while it waits, and after a rejection until it would have expired, so that nobody is asked the same again at once.
An approved command is validated again and then started, once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from enum import StrEnum
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from shared.disruption.candidates import Survey
from shared.disruption.methods.rebalance import is_recommended
from shared.disruption.records import BLOCKED, Candidate, Command
from shared.domain.pools.generations import Generation
from shared.domain.pools.nodepools import NodePool

MOST_OFFERS = 50
"""Commands that wait at a time. With so many, machines whose pools require approval stay."""
MOST_ENDED = 50
"""Ended offers that are kept for readers, the newest."""
OFFERED = "a command that takes this machine waits for approval, or was rejected"
GONE = "a machine of it is gone"
NOT_ASKED = "its pools require no approval any more"


class Outcome(StrEnum):
    """What became of an offer; WAITING: nothing yet."""

    WAITING = "waiting"
    APPROVED = "approved"
    REJECTED = "rejected"
    STARTED = "started"
    DROPPED = "dropped"
    EXPIRED = "expired"


WAITING, APPROVED, REJECTED, STARTED, DROPPED, EXPIRED = Outcome


class Answer(msgspec.Struct, frozen=True):
    """Who answered, when (seconds since the epoch) and what."""

    approved: bool
    who: str
    at: float
    reason: str = ""
    verified: bool = False
    """Whether the API server vouches for ``who``; otherwise it is what the client said."""


class Offer(msgspec.Struct, frozen=True):
    """A command that waits for an answer, or did. Times are seconds since the epoch."""

    id: str
    command: Command
    """Its candidates without pods: those are known anew when it is validated."""
    offered_at: float
    expires_at: float
    ended: Outcome | None = None
    """STARTED, REJECTED, DROPPED or EXPIRED: it holds no machine any more."""
    ended_at: float = 0.0
    why: str = ""
    answer: Answer | None = None

    @property
    def outcome(self) -> Outcome:
        if self.ended is not None:
            return self.ended
        if self.answer is None:
            return WAITING
        return APPROVED if self.answer.approved else REJECTED

    @property
    def uids(self) -> frozenset[str]:
        """Of its machines."""
        return frozenset(c.machine.uid for c in self.command.candidates)

    @property
    def generation(self) -> Generation:
        return self.command.candidates[0].machine.api


class End(NamedTuple):
    """How an offer ends, and why."""

    outcome: Outcome
    why: str


def offer_of(command: Command, id_: str, *, now: float, seconds: float) -> Offer:
    """The command as it is offered now, for so many seconds."""
    light = tuple(replace(c, pods=()) for c in command.candidates)
    return Offer(id_, replace(command, candidates=light), now, now + seconds)


def requiring_pools(command: Command) -> list[NodePool]:
    """The pools that require approval of this command, by key."""
    found = {c.pool.key: c.pool for c in command.candidates if command.reason in c.pool.approval}
    return [found[key] for key in sorted(found)]


def approval_for(command: Command, offers: Iterable[Offer], *, now: float) -> Offer | None:
    """The approved offer that this command is, or is a part of."""
    uids = {c.machine.uid for c in command.candidates}
    for offer in offers:
        asked = offer.command
        same = (asked.method, asked.reason) == (command.method, command.reason)
        if same and offer.outcome is APPROVED and now < deadline(offer) and uids <= offer.uids:
            return offer
    return None


def deadline(offer: Offer) -> float:
    """Until when it waits for its answer or, once it is approved, for its start."""
    if offer.answer is None or not offer.answer.approved:
        return offer.expires_at
    return offer.answer.at + (offer.expires_at - offer.offered_at)


def end_of(
    offer: Offer, pools: Mapping[str, NodePool], machines: Set[str], *, now: float
) -> End | None:
    """How the offer ends now without being started; None: it does not. ``pools``: by key; ``machines``: UIDs of those
    that stay."""
    if offer.ended is not None:
        return None
    if not offer.uids <= machines:
        return End(DROPPED, GONE)
    asked = (pools.get(c.pool.key) for c in offer.command.candidates)
    if not any(pool is not None and offer.command.reason in pool.approval for pool in asked):
        return End(DROPPED, NOT_ASKED)
    if now < deadline(offer):
        return None
    if offer.outcome is REJECTED:
        return End(REJECTED, offer.answer.reason if offer.answer else "")
    return End(EXPIRED, "nobody answered" if offer.answer is None else "the budgets left no room")


def held(offers: Iterable[Offer], besides: Set[str] = frozenset()) -> set[str]:
    """UIDs of the machines that offers hold, without those in ``besides``."""
    return {uid for offer in offers if offer.ended is None for uid in offer.uids} - besides


def next_approved(
    offers: Iterable[Offer], generation: Generation, *, now: float, later: Set[str] = frozenset()
) -> Offer | None:
    """The one that was approved first of this generation; ``later``: ids of those that are not tried now."""
    ready = [
        offer
        for offer in offers
        if offer.outcome is APPROVED
        and offer.generation is generation
        and offer.id not in later
        and now < deadline(offer)
    ]
    return min(ready, key=lambda o: (o.answer.at if o.answer else 0.0, o.id), default=None)


def surplus(offers: Iterable[Offer]) -> list[Offer]:
    """Ended offers that need not be kept any more, the oldest."""
    ended = sorted((o for o in offers if o.ended is not None), key=lambda o: (o.ended_at, o.id))
    return ended[: max(0, len(ended) - MOST_ENDED)]


def without_offered(found: Survey, offered: Set[str]) -> Survey:
    """The survey without candidates that an offer holds. A rebalance recommendation does not wait for an approval."""
    if not offered:
        return found
    waiting = [c for c in found.candidates if _waits(c, offered)]
    uids = {c.machine.uid for c in waiting}
    return Survey(
        tuple(c for c in found.candidates if c.machine.uid not in uids),
        (*found.rejections, *(c.refused(OFFERED, event=BLOCKED) for c in waiting)),
    )


def _waits(candidate: Candidate, offered: Set[str]) -> bool:
    return candidate.machine.uid in offered and not is_recommended(candidate)
