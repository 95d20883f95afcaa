"""Free resources of open machines: pods that fit there do not raise the cost."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from shared.domain.requirements import Requirements
from shared.solver.encode import NO_PRICE, Amounts, Indices
from shared.solver.placement.planned_machines import OpenMachine
from shared.solver.pod_classes import PodClass
from shared.solver.pools.templates import PoolTemplate

_MAX_CANDIDATES = 60
"""Machines that are tried per pod; each attempt takes about ten microseconds."""


def prices(template: PoolTemplate, requirements: Requirements, types: Indices) -> Amounts:
    """[types]: the price of each at its cheapest offering, in micro-USD per hour."""
    table = template.table
    zones = table.zone_mask(requirements, template.zones)
    kinds = table.capacity_mask(requirements)
    found: Amounts = table.price[types][:, zones][:, :, kinds].min(axis=(1, 2), initial=NO_PRICE)
    return found


def cost(machine: OpenMachine) -> int:
    """The price of the machine's cheapest offering, in micro-USD per hour."""
    return int(prices(machine.template, machine.requirements, machine.types.rows).min())


class Room:
    """Free resources of the cheapest type of each machine. Rows are machines in the order in which they were opened."""

    def __init__(self, machines: list[OpenMachine]) -> None:
        self._machines = machines
        self.free = np.array([_free(machine) for machine in machines], dtype=np.int64)
        self._closed: dict[PodClass, set[int]] = defaultdict(set)

    def candidates(self, pods: PodClass) -> list[int]:
        """Machines that may take one more pod, the fullest first."""
        fitting = np.flatnonzero((self.free >= pods.requests).all(axis=1))
        closed = self._closed[pods]
        order = fitting[np.argsort(self.free[fitting].sum(axis=1), kind="stable")]
        return [int(i) for i in order if int(i) not in closed][:_MAX_CANDIDATES]

    def close(self, index: int, pods: PodClass) -> None:
        """Excludes a machine for this class."""
        self._closed[pods].add(index)

    def update(self, index: int) -> None:
        """Updates a machine's row. To be called after it took pods."""
        self.free[index] = _free(self._machines[index])


def _free(machine: OpenMachine) -> Amounts:
    types = machine.types.rows
    cheapest = types[int(prices(machine.template, machine.requirements, types).argmin())]
    found: Amounts = machine.template.available[cheapest] - machine.used
    return found
