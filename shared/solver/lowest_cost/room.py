"""Room that planned machines still have: pods that go there cost nothing more."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from shared.domain.requirements import Requirements
from shared.solver.encode import NO_PRICE, Amounts, Indices
from shared.solver.placement.planned_machines import OpenClaim
from shared.solver.pod_classes import PodClass
from shared.solver.pools.templates import PoolTemplate

_MOST_TRIES = 60
"""Machines that are asked per pod; each question takes some ten microseconds."""


def prices(template: PoolTemplate, requirements: Requirements, types: Indices) -> Amounts:
    """[types]: each at its cheapest offering, in micro-USD per hour."""
    table = template.table
    zones = table.zone_mask(requirements, template.zones)
    kinds = table.capacity_mask(requirements)
    found: Amounts = table.price[types][:, zones][:, :, kinds].min(axis=(1, 2), initial=NO_PRICE)
    return found


def cost(claim: OpenClaim) -> int:
    """Of the cheapest offering, in micro-USD per hour."""
    return int(prices(claim.template, claim.requirements, claim.types.rows).min())


class Room:
    """What the cheapest type of each claim has left. Rows are claims in order of opening."""

    def __init__(self, claims: list[OpenClaim]) -> None:
        self._claims = claims
        self.free = np.array([_free(claim) for claim in claims], dtype=np.int64)
        self._closed: dict[PodClass, set[int]] = defaultdict(set)

    def candidates(self, pods: PodClass) -> list[int]:
        """Claims that may take one more, the fullest first."""
        fitting = np.flatnonzero((self.free >= pods.requests).all(axis=1))
        closed = self._closed[pods]
        order = fitting[np.argsort(self.free[fitting].sum(axis=1), kind="stable")]
        return [int(i) for i in order if int(i) not in closed][:_MOST_TRIES]

    def close(self, index: int, pods: PodClass) -> None:
        """This claim never takes this class."""
        self._closed[pods].add(index)

    def update(self, index: int) -> None:
        """The claim took pods."""
        self.free[index] = _free(self._claims[index])


def _free(claim: OpenClaim) -> Amounts:
    types = claim.types.rows
    cheapest = types[int(prices(claim.template, claim.requirements, types).argmin())]
    found: Amounts = claim.template.available[cheapest] - claim.used
    return found
