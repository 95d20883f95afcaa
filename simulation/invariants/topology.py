"""Which zones the rules of a pod about other pods leave open, where that can be said without the planner.

A new node is empty, so a rule about a hostname never keeps a pod from it. A rule about zones leaves those open that
satisfy it whatever else is planned. Other rules are not judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from shared.domain import labels
from shared.domain.workloads.pods import AffinityTerm, Pod, SpreadConstraint
from simulation.invariants.picture import Picture


def open_zones(pod: Pod, zones: Iterable[str], picture: Picture) -> frozenset[str] | None:
    """The zones of ``zones`` in which a new node can take the pod; None when its rules are not judged."""
    found: frozenset[str] | None = frozenset(zones)
    rules: list[AffinityTerm | SpreadConstraint] = [
        *_required((*pod.affinity, *pod.anti_affinity)),
        *_hard(pod.spread),
    ]
    for rule in rules:
        if found is None or not _is_judged(rule):
            return None
        if rule.topology_key == labels.HOSTNAME:
            # Nobody is on a new node: pods that are to be apart are, and pods that are to be together cannot be.
            found = None if rule in pod.affinity else found
        elif rule in pod.affinity:
            found = _together(rule, pod, found, picture)
        else:
            found = _spread(rule, pod, found, picture) if rule in pod.spread else None
    return found


def _required(terms: Iterable[AffinityTerm]) -> list[AffinityTerm]:
    return [term for term in terms if term.weight is None]


def _hard(constraints: Iterable[SpreadConstraint]) -> list[SpreadConstraint]:
    return [one for one in constraints if one.when_unsatisfiable == "DoNotSchedule"]


def _is_judged(rule: AffinityTerm | SpreadConstraint) -> bool:
    if rule.expressions or rule.topology_key not in (labels.ZONE, labels.HOSTNAME):
        return False
    if isinstance(rule, SpreadConstraint):
        usual = rule.node_affinity_policy == "Honor" and rule.node_taints_policy == "Ignore"
        return usual and not rule.min_domains and not rule.match_label_keys
    return rule.namespaces is None and rule.namespace_selector is None


def _together(
    rule: AffinityTerm | SpreadConstraint, pod: Pod, zones: frozenset[str], picture: Picture
) -> frozenset[str] | None:
    """The zones with pods of the rule; without one the first of them may go anywhere."""
    counted = _counted(rule, pod, picture, with_leaving=True)
    if counted:
        return zones & _counted(rule, pod, picture, with_leaving=False).keys()
    return zones if _selects(rule, pod) else None


def _spread(
    rule: AffinityTerm | SpreadConstraint, pod: Pod, zones: frozenset[str], picture: Picture
) -> frozenset[str] | None:
    """The zones with the fewest pods of the rule: one more is never too many there."""
    if pod.node_selector:
        return None  # It changes which zones count.
    found = zones
    for with_leaving in (True, False):
        counted = _counted(rule, pod, picture, with_leaving=with_leaving)
        fewest = min((counted[zone] for zone in zones), default=0)
        found &= {zone for zone in zones if counted[zone] == fewest}
    return found


def _counted(
    rule: AffinityTerm | SpreadConstraint, pod: Pod, picture: Picture, *, with_leaving: bool
) -> Counter[str]:
    """Zone -> bound pods of the rule."""
    zone_of = {node.name: node.labels.get(labels.ZONE, "") for node in picture.nodes()}
    return Counter(
        zone_of[one.node_name]
        for one in picture.pods()
        if one.node_name in zone_of
        and one.namespace == pod.namespace
        and _selects(rule, one)
        and not one.is_terminal
        and (with_leaving or not one.terminating)
    )


def _selects(rule: AffinityTerm | SpreadConstraint, pod: Pod) -> bool:
    return rule.match_labels.items() <= pod.labels.items()
