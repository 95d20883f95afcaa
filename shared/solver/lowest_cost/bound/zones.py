"""What zones mean for the lowest cost: pods that must be in one, and pods that must be spread over them.

Machines of different zones share no pods. So where some pods are bound to zones, offerings are kept apart by place: the
zones that are alike for all pods are one place. Of pods that a hard rule spreads over zones each zone gets at least its
share, whatever the plan.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shared.domain import labels as keys
from shared.solver.encode import Mask
from shared.solver.lowest_cost.bound.offerings import forms_of
from shared.solver.lowest_cost.rules import Rules
from shared.solver.placement.fewest_nodes import Placement, Run
from shared.solver.placement.relaxation import SCHEDULE_ANYWAY
from shared.solver.pod_classes import PodClass
from shared.solver.topology.groups import Group
from shared.solver.topology.rules import SPREAD


class Zones:
    """The places of one placement, and the least number of pods of each class in each of them.

    ``runs``: the pods that go to new machines, one run for each class.
    """

    def __init__(self, placement: Placement, runs: Sequence[Run], rules: Rules) -> None:
        self._placement = placement
        self._counted: dict[Group, list[PodClass]] = {}
        for pods, _ in runs:
            for group in placement.topology.groups_of(pods)[1]:
                self._counted.setdefault(group, []).append(pods)
        self._spread = [self._share(pods, len(uids)) for pods, uids in runs]
        allowed = [self._allowed(pods, rules) for pods, _ in runs]
        usable: Mask = np.any(allowed, axis=0)
        is_bound = any(each for _, each in self._spread) or any(
            (a != usable).any() for a in allowed
        )
        masks = [*allowed, *(mask for mask, each in self._spread if each)]
        alike: dict[bytes, Mask] = {}
        for zone in map(int, np.flatnonzero(usable)):
            looks = np.array([mask[zone] for mask in masks]).tobytes() + self._offered(zone)
            mask = alike.setdefault(looks if is_bound else b"", np.zeros_like(usable))
            mask[zone] = True
        self.places = list(alike.values())

    def least(self, run: int) -> list[int]:
        """[places]: so many pods of a run, by its index, are there in every plan."""
        domains, each = self._spread[run]
        return [each * int((mask & domains).sum()) for mask in self.places]

    def _offered(self, zone: int) -> bytes:
        """What the pools may have in the zone, and at which prices."""
        pools = self._placement.templates
        return b"".join(pool.table.price[pool.types, zone].tobytes() for pool in pools)

    def _allowed(self, pods: PodClass, rules: Rules) -> Mask:
        """[zones]: those that any form of the class may use in some pool."""
        placement = self._placement
        found = np.zeros(len(placement.table.zones), dtype=np.bool_)
        for form in forms_of(pods, tolerate_preferred=placement.tolerate_preferred):
            for template in placement.templates:
                allowed = rules.allowed(form, template)
                if allowed is not None:
                    found |= allowed.zones
        return found

    def _share(self, pods: PodClass, count: int) -> tuple[Mask, int]:
        """(zones that a rule spreads the class over, the least number of its pods in each of them)."""
        zones = self._placement.table.zones
        nothing = np.zeros(len(zones), dtype=np.bool_)
        rules = [rule for rule in pods.pod.spread if rule.when_unsatisfiable != SCHEDULE_ANYWAY]
        owned, _ = self._placement.topology.groups_of(pods)
        groups = [g for g in owned if g.rule.kind is SPREAD and g.rule.key == keys.ZONE]
        single = len(forms_of(pods, tolerate_preferred=self._placement.tolerate_preferred)) == 1
        if len(rules) != len(pods.pod.spread) or len(groups) != 1 or not single:
            return nothing, 0
        group, asked = groups[0], pods.strict.get(keys.ZONE)
        # Pods of other classes, or of nodes that are there, would shift the shares.
        if self._counted.get(group) != [pods] or sum(group.counts.values()) != count:
            return nothing, 0
        domains = {name for name in group.counts if asked is None or asked.has(name)}
        if not domains or not domains <= set(zones):
            return nothing, 0
        others = len(domains) - 1
        each = -(-(count - others * group.rule.max_skew) // len(domains))
        return np.array([name in domains for name in zones], dtype=np.bool_), max(0, each)
