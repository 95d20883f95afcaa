"""Predicts the zone of each pod, and how many equal pods a machine may hold.

The prediction only saves refusals: ``Topology`` checks every pod again when machines are built. Rules that are hard to
predict are left to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from typing import NamedTuple

from shared.domain import labels as keys
from shared.solver.encode import Mask
from shared.solver.lowest_cost.problem import ANY_ZONE
from shared.solver.pod_classes import PodClass
from shared.solver.topology.counting import Topology
from shared.solver.topology.groups import Group
from shared.solver.topology.rules import AFFINITY, ANTI_AFFINITY, SPREAD


class HostLimit(NamedTuple):
    """At most ``most`` pods of a group on one machine."""

    group: Hashable
    most: int


def host_limit(topology: Topology, pods: PodClass) -> HostLimit | None:
    """The tightest limit per machine of a class: host ports, anti-affinity or spread by host."""
    if pods.pod.host_ports:
        return HostLimit(("ports", pods.pod.host_ports), 1)
    owned, counted = topology.groups_of(pods)
    found = []
    for group in owned:
        if group.rule.key == keys.HOSTNAME and group in counted:
            if group.rule.kind == ANTI_AFFINITY:
                found.append(HostLimit(group, 1))
            elif group.rule.kind == SPREAD:
                found.append(HostLimit(group, max(group.rule.max_skew, 1)))
    return min(found, key=lambda limit: limit.most, default=None)


def wants_one_host(topology: Topology, pods: PodClass) -> bool:
    """True for pod affinity by host name, which the packing does not support."""
    owned, _ = topology.groups_of(pods)
    return any(g.rule.kind == AFFINITY and g.rule.key == keys.HOSTNAME for g in owned)


class ZonePlan:
    """Counts per rule and zone as they will be once all pods planned so far are placed."""

    def __init__(self, topology: Topology, zones: list[str], cpu_column: int) -> None:
        self._topology = topology
        self._cpu = cpu_column
        self._zones = zones
        self._counts: dict[Group, dict[int, int]] = {}
        self._load: dict[int, int] = defaultdict(int)

    def split(self, pods: PodClass, count: int, allowed: Mask) -> dict[int, int]:
        """Zone (or ANY_ZONE) -> number of pods. Pods without a predicted zone are left out."""
        owned, counted = self._topology.groups_of(pods)
        rules = [group for group in owned if group.rule.key == keys.ZONE]
        if not rules:
            return {ANY_ZONE: count}
        zones = [z for z, ok in enumerate(allowed) if ok]
        cpu = int(pods.requests[self._cpu])
        most = count
        for group in rules:
            zones, most = self._narrowed(group, group in counted, zones, most)
        found = self._balanced([g for g in rules if g.rule.kind == SPREAD], zones, count, most)
        for zone, pods_there in found.items():
            self._load[zone] += pods_there * cpu
            for group in counted:
                if group.rule.key == keys.ZONE:
                    self._of(group)[zone] += pods_there
        return found

    def _of(self, group: Group) -> dict[int, int]:
        if group not in self._counts:
            known = ((z, group.counts.get(name, 0)) for z, name in enumerate(self._zones))
            self._counts[group] = dict(known)
        return self._counts[group]

    def _narrowed(
        self, group: Group, counts_itself: bool, zones: list[int], most: int
    ) -> tuple[list[int], int]:
        """The zones that a rule allows, and the most pods that each may take."""
        there = self._of(group)
        if group.rule.kind == AFFINITY:
            taken = [z for z in zones if there[z]]
            if taken or not counts_itself:
                return taken, most
            return sorted(zones, key=lambda z: (self._load[z], z))[:1], most
        if group.rule.kind == ANTI_AFFINITY:
            free = [z for z in zones if not there[z]]
            return free, 1 if counts_itself else most
        return zones, most

    def _balanced(
        self, spreads: list[Group], zones: list[int], count: int, most: int
    ) -> dict[int, int]:
        """Zone -> number of pods, adding each pod to the zone with the fewest."""
        level = {z: max((self._of(g)[z] for g in spreads), default=0) for z in zones}
        found: dict[int, int] = defaultdict(int)
        for _ in range(count):
            open_zones = [z for z in zones if found[z] < most]
            if not open_zones:
                break
            zone = min(open_zones, key=lambda z: (level[z], self._load[z] if not spreads else 0, z))
            found[zone] += 1
            level[zone] += bool(spreads)
        return {zone: found[zone] for zone in sorted(found) if found[zone]}
