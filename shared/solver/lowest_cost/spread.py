"""Predicts the zone of each pod, and how many equal pods a machine may hold.

The prediction only saves refusals: ``Topology`` checks every pod again when machines are built. Rules that are hard to
predict are left to it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from shared.domain import labels as keys
from shared.domain.requirements import Requirements
from shared.solver.encode import Mask
from shared.solver.lowest_cost.problem import ANY_ZONE
from shared.solver.pod_classes import PodClass
from shared.solver.topology.counting import Topology
from shared.solver.topology.groups import Group
from shared.solver.topology.rules import AFFINITY, ANTI_AFFINITY, SPREAD

Pins = tuple[tuple[str, str], ...]
"""Labels that machines are planned with, beside their zone: (key, value)."""
_MOST_PLACES = 12
"""With more combinations of values, spread over labels is left to ``Topology``."""


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


def counts_others(topology: Topology, pods: PodClass) -> bool:
    """True for a rule by host name that does not count the class's own pods."""
    owned, counted = topology.groups_of(pods)
    return any(g.rule.key == keys.HOSTNAME and g not in counted for g in owned)


def wants_one_host(topology: Topology, pods: PodClass) -> bool:
    """True for pod affinity by host name, which the packing does not support."""
    owned, _ = topology.groups_of(pods)
    return any(g.rule.kind == AFFINITY and g.rule.key == keys.HOSTNAME for g in owned)


def label_spreads(topology: Topology, pods: PodClass) -> list[Group]:
    """The class's spread rules over labels other than zone and host name that count its own pods."""
    owned, counted = topology.groups_of(pods)
    rules = (group for group in owned if group in counted and group.rule.kind == SPREAD)
    return [one for one in rules if one.rule.key not in (keys.ZONE, keys.HOSTNAME)]


class LabelPlan:
    """Predicts the values of labels that pods are spread over, other than zone and host name.

    These are capacity types, and labels of which the pool's requirements offer several values. Of a key that it is not
    spread over a pod gets the first value that it allows, spot before on-demand.
    """

    def __init__(self, topology: Topology, classes: Sequence[PodClass], pool: Requirements) -> None:
        self._topology = topology
        self._levels: dict[Group, dict[str, int]] = {}
        self._values: dict[str, list[str]] = {}
        for group in (one for pods in classes for one in label_spreads(topology, pods)):
            key, offered = group.rule.key, pool.get(group.rule.key)
            if offered is not None or key == keys.CAPACITY_TYPE:
                values = filter(offered.has, sorted(group.counts)) if offered else group.counts
                self._values[key] = sorted(values, key=lambda one: (one != keys.SPOT, one))
        most = math.prod(len(values) for values in self._values.values())
        if not 0 < most <= _MOST_PLACES:
            self._values = {}

    def split(self, pods: PodClass, uids: list[str]) -> dict[Pins, list[str]]:
        """Values of labels -> UIDs of the pods on machines with them."""
        found: dict[Pins, list[str]] = {}
        own = {group.rule.key: group for group in label_spreads(self._topology, pods)}
        open_values = {}
        for key, values in self._values.items():
            asked = pods.requirements.get(key)
            open_values[key] = list(filter(asked.has, values)) if asked else values
        if not all(open_values.values()):
            return {(): uids}
        for uid in uids:
            pins = []
            for key, values in open_values.items():
                level = self._level(own[key]) if key in own else dict.fromkeys(values, 0)
                value = min(values, key=lambda one: (level.get(one, 0), values.index(one)))
                level[value] = level.get(value, 0) + 1
                pins.append((key, value))
            found.setdefault(tuple(pins), []).append(uid)
        return found

    def _level(self, group: Group) -> dict[str, int]:
        return self._levels.setdefault(group, dict(group.counts))


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
            zone = min(
                open_zones,
                key=lambda z: (level[z], self._load[z] if not spreads else 0, z),
            )
            found[zone] += 1
            level[zone] += bool(spreads)
        return {zone: found[zone] for zone in sorted(found) if found[zone]}
