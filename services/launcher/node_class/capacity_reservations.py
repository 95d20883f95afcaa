"""The capacity reservations that node classes select (EC-05, LCH-84, LCH-90).

All that the account may use are listed once a minute, and terms are matched here: EC2 has no filter by id, and refuses
a call that names an unknown one. What is found is published for the scheduler, with what is left of each, before the
class is called Ready: else its pools would buy beside reserved places that are paid for.

What may go wrong: EC2 does not answer. What was listed last serves for a day to say which there are (LCH-90), but what
is left of them is then not known, so nothing new is planned into them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from shared.cloud.client.session import Cloud
from shared.cloud.ec2.records import CapacityReservation
from shared.concurrency.clock import Clock
from shared.domain.instance_types.reservations import (
    CAPACITY_BLOCK,
    INTERRUPTIBLE_LABEL,
    TYPE_LABEL,
    Reservation,
    truth,
)
from shared.domain.pools.nodepools import NodeClass, SelectorTerm
from shared.errors import TransientError
from shared.log import get_logger
from shared.redis.mirror.catalogue.reservations import ReservationStore

log = get_logger(__name__)

NOT_FOUND = "CapacityReservationsNotFound"
COUNT_FRESH_SECONDS = 60.0
LIST_RETRY_SECONDS = 30.0
"""How soon EC2 is asked again when it did not answer."""
RESERVATIONS_KNOWN_SECONDS = 24 * 3600.0
"""How long it is known which there are, and how soon they are listed again (LCH-90)."""
BLOCK_END_SECONDS = 40 * 60.0
"""So long before a capacity block's end its machines go; EC2 takes them back half an hour later (LCH-84)."""


def selects(term: SelectorTerm, one: CapacityReservation) -> bool:
    """Every field of the term matches. ``*`` stands for any text in a tag's value. Pure (EC-05)."""
    fields = (
        (term.id, one.id),
        (term.owner, one.owner),
        (term.match_criteria, one.criteria),
    )
    return (
        any((term.id, term.owner, term.match_criteria, term.tags))
        and all(value in ("", held) for value, held in fields)
        and all(
            key in one.tags and fnmatchcase(one.tags[key], pattern.replace("[", "[[]"))
            for key, pattern in term.tags.items()
        )
    )


def is_ending(one: CapacityReservation, now: float) -> bool:
    """Is it a capacity block in its last 40 minutes? Pure (LCH-84)."""
    return (
        one.kind == CAPACITY_BLOCK
        and one.ends_at is not None
        and one.ends_at - now <= BLOCK_END_SECONDS
    )


def offered(
    found: Mapping[str, Iterable[CapacityReservation]], *, counted_at: float, now: float
) -> list[Reservation]:
    """What may be planned with, sorted by id. ``found``: node class key -> what it selects. Pure."""
    classes: dict[str, set[str]] = {}
    by_id: dict[str, CapacityReservation] = {}
    for key, selected in found.items():
        for one in selected:
            if not is_ending(one, now):
                classes.setdefault(one.id, set()).add(key)
                by_id[one.id] = one
    return [
        Reservation(
            id=name,
            instance_type=one.instance_type,
            zone=one.zone,
            kind=one.kind,
            interruptible=one.interruptible,
            left=one.left,
            counted_at=counted_at,
            node_classes=tuple(sorted(classes[name])),
        )
        for name, one in sorted(by_id.items())
    ]


@dataclass
class CapacityReservations:
    """Lists them, and remembers the list."""

    cloud: Cloud
    clock: Clock
    enabled: bool = True
    """The gate ReservedCapacity."""
    store: ReservationStore | None = None
    """Where the scheduler reads; None: nobody does."""
    counted_at: float = 0.0
    """When they were listed; seconds since the epoch."""
    _listed: tuple[CapacityReservation, ...] = ()
    _listed_at: float = float("-inf")
    _failed_at: float = float("-inf")

    async def find(self, node_class: NodeClass) -> tuple[CapacityReservation, ...]:
        """What the class selects, sorted by id. Raises Unauthorized, and TransientError before anything was listed."""
        if not self.enabled or not node_class.reservation_terms:
            return ()
        listed = await self.listed()
        return tuple(
            one
            for one in listed
            if any(selects(term, one) for term in node_class.reservation_terms)
        )

    async def publish(self, node_class: NodeClass) -> None:
        """Tell the scheduler what this version of the class selects, also if that is nothing.

        Raises what ``find`` raises, and TransientError when it cannot be stored.
        """
        if self.store is None or not node_class.reservation_terms:
            return
        found = {node_class.key: await self.find(node_class)}
        found_now = offered(found, counted_at=self.counted_at, now=self.clock.now())
        await self.store.put(node_class, found_now if self.is_counted else ())

    async def listed(self) -> tuple[CapacityReservation, ...]:
        """All active ones, at most a minute old unless EC2 is silent."""
        now = self.clock.monotonic()
        age = now - self._listed_at
        if age < COUNT_FRESH_SECONDS or (
            age < RESERVATIONS_KNOWN_SECONDS and now - self._failed_at < LIST_RETRY_SECONDS
        ):
            return self._listed
        try:
            found = await self.cloud.ec2.capacity_reservations()
        except TransientError as error:
            if age >= RESERVATIONS_KNOWN_SECONDS:
                raise
            self._failed_at = now
            log.warning("capacity reservations cannot be listed", error=error.message)
            return self._listed
        self._listed, self._listed_at, self.counted_at = tuple(found), now, self.clock.now()
        return self._listed

    def labels_of(self, reservation_id: str) -> dict[str, str]:
        """What a node in this reservation says of it, as far as it is known (IT-44)."""
        for one in self._listed:
            if one.id == reservation_id:
                return {TYPE_LABEL: one.kind, INTERRUPTIBLE_LABEL: truth(one.interruptible)}
        return {}

    @property
    def is_counted(self) -> bool:
        """Is it known what is left of them?"""
        return self.clock.monotonic() - self._listed_at < 2 * COUNT_FRESH_SECONDS
