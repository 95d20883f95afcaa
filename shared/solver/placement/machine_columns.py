"""What the search for a place looks at in all open claims at once: room, pods, zone, and counts per host.

Rows are claims in order of opening. What stands here only rules claims out; whether one takes a pod is decided by
``Admitter``. Columns of memory are claims, so that one comparison per resource runs over neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import ge

import numpy as np

from shared.domain import labels as keys
from shared.solver.encode import Amounts, Indices, Mask
from shared.solver.placement.planned_machines import OpenClaim
from shared.solver.topology.groups import DomainLimit, Group

UNDECIDED = -1
_FIRST_ROWS = 64


@dataclass(slots=True)
class ClaimColumns:
    """``free``: [resources, rows]."""

    free: Amounts
    """The largest amounts among each claim's types, without what its pods use: exceeding one rules the claim out."""
    pods: Amounts
    zone: Indices
    """Number of the zone that a claim is pinned to; UNDECIDED where there are several."""
    size: int = 0
    zones: dict[str, int] = field(default_factory=dict)
    by_host: dict[Group, Amounts] = field(default_factory=dict)
    """Of each group that counts by host name and was asked for: its pods in each claim."""

    @classmethod
    def empty(cls, width: int) -> ClaimColumns:
        zero = np.zeros((width, _FIRST_ROWS), dtype=np.int64)
        undecided = np.full(_FIRST_ROWS, UNDECIDED, dtype=np.intp)
        return cls(zero, np.zeros(_FIRST_ROWS, dtype=np.int64), undecided)

    @classmethod
    def of(cls, claims: list[OpenClaim], width: int) -> ClaimColumns:
        """For claims that hold pods already."""
        found = cls.empty(width)
        for index, claim in enumerate(claims):
            found.append()
            found.set_zone(index, claim)
            found.set_content(index, claim)
        return found

    def append(self) -> None:
        """One more claim; its row is filled by the setters."""
        if self.size == len(self.pods):
            self.free = np.concatenate([self.free, np.zeros_like(self.free)], axis=1)
            self.pods = np.concatenate([self.pods, np.zeros_like(self.pods)])
            self.zone = np.concatenate([self.zone, np.full_like(self.zone, UNDECIDED)])
            self.by_host = {
                group: np.concatenate([counts, np.zeros_like(counts)])
                for group, counts in self.by_host.items()
            }
        self.size += 1

    def set_zone(self, index: int, claim: OpenClaim) -> None:
        """After the claim's requirements changed."""
        zone = claim.requirements.get(keys.ZONE)
        value = zone.single_value if zone is not None else None
        number = UNDECIDED if value is None else self.zones.setdefault(value, len(self.zones))
        self.zone[index] = number

    def set_content(self, index: int, claim: OpenClaim) -> None:
        """After the claim took pods."""
        self.free[:, index] = claim.types.roomiest - claim.used
        self.pods[index] = len(claim.pods)

    def count(self, index: int, claim: OpenClaim, groups: list[Group]) -> None:
        """After topology has counted the claim's new pods in these groups."""
        for group in groups:
            counts = self.by_host.get(group)
            if counts is not None:
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
        found = self.by_host.get(group)
        if found is None:
            found = self.by_host[group] = np.zeros(len(self.pods), dtype=np.int64)
            found[: len(claims)] = [group.counts.get(claim.hostname, 0) for claim in claims]
        return found

    def emptiest(self, request: tuple[int, ...], allowed: Mask | None) -> int | None:
        """The claim that ``candidates`` names first, where it is the one with the fewest pods of all that are allowed;
        None: ask ``candidates``. Most pods need no more than this."""
        if not self.size:
            return None
        if allowed is None:
            index = int(self.pods[: self.size].argmin())
        else:
            open_to = allowed.nonzero()[0]
            if not len(open_to):
                return None
            index = int(open_to[self.pods.take(open_to).argmin()])
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
