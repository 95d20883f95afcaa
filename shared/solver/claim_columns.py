"""What the search for a place looks at in all open claims at once: room, pods, zone, and counts per host.

Rows are claims in order of opening. What stands here only rules claims out; whether one takes a pod is decided by
``Admitter``. Columns of memory are claims, so that one comparison per resource runs over neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from operator import ge

import numpy as np

from shared.domain import labels as keys
from shared.solver.claims import OpenClaim
from shared.solver.encode import Amounts, Indices, Mask
from shared.solver.topology import DomainLimit, Group

UNDECIDED = -1
_FIRST_ROWS = 64
_NO_CLAIM = np.iinfo(np.int64).max


@dataclass(slots=True)
class ClaimColumns:
    """``free``: [resources, rows]."""

    roomiest: Amounts
    """[resources, rows]: the largest amount among each claim's types."""
    free: Amounts
    """``roomiest`` without what the pods use: exceeding it rules the claim out."""
    pods: Amounts
    zone: Indices
    """Number of the zone that a claim is pinned to; UNDECIDED where there are several."""
    size: int = 0
    largest: list[set[int]] = field(default_factory=list)
    """Of each claim: types that ``roomiest`` is taken from. As long as they stay, it stays."""
    zones: dict[str, int] = field(default_factory=dict)
    by_host: dict[int, tuple[Group, Amounts]] = field(default_factory=dict)
    """Of each group that counts by host name and was asked for: its pods in each claim, by id of the group."""

    @classmethod
    def empty(cls, width: int) -> ClaimColumns:
        zero = np.zeros((width, _FIRST_ROWS), dtype=np.int64)
        undecided = np.full(_FIRST_ROWS, UNDECIDED, dtype=np.intp)
        return cls(zero, zero.copy(), np.zeros(_FIRST_ROWS, dtype=np.int64), undecided)

    @classmethod
    def of(cls, claims: list[OpenClaim], width: int) -> ClaimColumns:
        """For claims that hold pods already."""
        found = cls.empty(width)
        for index, claim in enumerate(claims):
            found.append()
            found.set_types(index, claim)
            found.set_zone(index, claim)
            found.set_content(index, claim)
        return found

    def append(self) -> None:
        """One more claim; its row is filled by the setters."""
        if self.size == len(self.pods):
            self.roomiest = np.concatenate([self.roomiest, np.zeros_like(self.roomiest)], axis=1)
            self.free = np.concatenate([self.free, np.zeros_like(self.free)], axis=1)
            self.pods = np.concatenate([self.pods, np.zeros_like(self.pods)])
            self.zone = np.concatenate([self.zone, np.full_like(self.zone, UNDECIDED)])
            self.by_host = {
                key: (group, np.concatenate([counts, np.zeros_like(counts)]))
                for key, (group, counts) in self.by_host.items()
            }
        self.size += 1
        self.largest.append(set())

    def set_types(self, index: int, claim: OpenClaim) -> None:
        """After the claim's types changed; ``set_content`` must follow."""
        amounts = claim.template.columns.take(claim.types, axis=1)
        at = amounts.argmax(axis=1)
        self.largest[index] = set(claim.types.take(at).tolist())
        self.roomiest[:, index] = amounts[_rows(len(at)), at]

    def drop_types(self, index: int, claim: OpenClaim) -> None:
        """After the claim lost those types that do not hold its pods, and no others; ``set_content`` must follow."""
        used, available = claim.used.tolist(), claim.template.available
        if not all(all(map(ge, available[at].tolist(), used)) for at in self.largest[index]):
            self.set_types(index, claim)

    def set_zone(self, index: int, claim: OpenClaim) -> None:
        """After the claim's requirements changed."""
        zone = claim.requirements.get(keys.ZONE)
        value = zone.single_value if zone is not None else None
        number = UNDECIDED if value is None else self.zones.setdefault(value, len(self.zones))
        self.zone[index] = number

    def set_content(self, index: int, claim: OpenClaim) -> None:
        """After the claim took pods."""
        self.free[:, index] = self.roomiest[:, index] - claim.used
        self.pods[index] = len(claim.pods)

    def count(self, index: int, claim: OpenClaim) -> None:
        """After topology has counted the claim's new pods."""
        for group, counts in self.by_host.values():
            counts[index] = group.counts.get(claim.hostname, 0)

    def within(self, limits: list[DomainLimit], claims: list[OpenClaim]) -> Mask | None:
        """Claims that topology would not refuse by host name or by the zone they are pinned to; None: every claim."""
        n, zones = self.size, self.zone[: self.size]
        allowed: Mask | None = None
        for group, least, most in limits:
            if group.rule.key == keys.HOSTNAME:
                counts = self._counts(group, claims)[:n]
                inside = counts <= most if least == 0 else (counts >= least) & (counts <= most)
                allowed = inside if allowed is None else allowed & inside
            elif group.rule.key == keys.ZONE:
                for zone, number in self.zones.items():
                    if not least <= group.counts.get(zone, 0) <= most:
                        elsewhere = zones != number
                        allowed = elsewhere if allowed is None else allowed & elsewhere
        return allowed

    def _counts(self, group: Group, claims: list[OpenClaim]) -> Amounts:
        known = self.by_host.get(id(group))
        if known is None:
            counts = np.zeros(len(self.pods), dtype=np.int64)
            for index, claim in enumerate(claims):
                counts[index] = group.counts.get(claim.hostname, 0)
            known = self.by_host[id(group)] = group, counts
        return known[1]

    def emptiest(self, request: tuple[int, ...], allowed: Mask | None) -> int | None:
        """The claim that ``candidates`` names first, where it is the one with the fewest pods of all that are allowed;
        None: ask ``candidates``. Most pods need no more than this."""
        if not self.size:
            return None
        pods = self.pods[: self.size]
        if allowed is not None:
            pods = np.where(allowed, pods, _NO_CLAIM)
        index = int(pods.argmin())
        if pods[index] == _NO_CLAIM:
            return None
        room = self.free[:, index].tolist()
        return index if all(map(ge, room, request)) else None

    def candidates(
        self, request: tuple[int, ...], allowed: Mask | None
    ) -> tuple[int, Iterator[int]]:
        """Claims that may have room: how many, and which, fewest pods first, then oldest.

        ``allowed``: one entry per claim; None: all. The first one mostly takes the pod: the others are sorted when
        they are asked for.
        """
        n, room = self.size, allowed
        for column, amount in enumerate(request):
            if amount > 0:
                enough = self.free[column, :n] >= amount
                room = enough if room is None else np.logical_and(room, enough, out=enough)
        found = np.arange(n) if room is None else room.nonzero()[0]
        return len(found), self._by_pods(found)

    def _by_pods(self, found: Indices) -> Iterator[int]:
        if len(found):
            pods = self.pods[found]
            best = int(pods.argmin())
            yield int(found[best])
            for at in np.argsort(pods, kind="stable").tolist():
                if at != best:
                    yield int(found[at])


@cache
def _rows(count: int) -> Indices:
    return np.arange(count)
