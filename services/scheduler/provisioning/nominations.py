"""How long the planner's choice of a node for a pod counts: pure. kube-scheduler places pods, we only suggest.

A plan promises each pod a node, or a machine that becomes one. A promise turns into ``status.nominatedNodeName`` once
the node is there. A nominated pod gets no other capacity (POD-01), so a nomination must end when it comes to nothing:
its node is gone or terminates, has no room after all, or could have taken the pod for ``BIND_SECONDS`` and did not.

kube-scheduler nominates too, for a pod that preempts others. While pods leave its node, room is being made there, and
the time does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from shared.domain.machines.machine import INITIALIZED, Machine
from shared.domain.nodes import Node
from shared.domain.resources import fits, subtract
from shared.domain.workloads.pods import Pod, is_provisionable
from shared.solver.plan import Plan

BIND_SECONDS = 60.0
"""A node that could take its nominated pods takes them within this time, or not at all."""
JOIN_SECONDS = 900.0
"""As long as a machine may take to register (LCH-76): then nominations to its node end, whatever it does."""
LATE_SECONDS = 10.0
"""kube-scheduler has chosen nodes for pods a while before it has written that: at its default limits it writes some
fifty bindings a second. So long a promise counts although its node can take pods."""
PROMISE_SECONDS = 1200.0
MOST_PROMISES = 20_000
"""Older ones are forgotten: their pods go where kube-scheduler likes them best."""
FIRST_MINOR = 35
"""KEP-5278: from this Kubernetes on kube-scheduler takes nominations from others."""
LOCAL_FLAVOUR = "+dovetail"
"""How the local cluster's version ends; its scheduler has always taken them."""


class Promise(msgspec.Struct, frozen=True):
    """``target``: a node's name, or a machine's that has no node yet. ``until``: monotonic seconds."""

    target: str
    until: float

    @property
    def since(self) -> float:
        return self.until - PROMISE_SECONDS


class Order(msgspec.Struct, frozen=True):
    """Write ``node`` on the pod as its nomination; empty: take the one away that it has."""

    pod: Pod
    node: str


class Nomination(msgspec.Struct, frozen=True):
    """Since when (monotonic seconds) a pod is nominated to ``node``, and since when that node could take it."""

    node: str
    since: float
    bindable_since: float | None = None
    fits: bool = True
    """False: the node, as it came up, has less room than the plan thought."""


@dataclass(frozen=True)
class Homes:
    """Nodes that stay, and what is known of them."""

    nodes: Mapping[str, Node]
    by_machine: Mapping[str, Node]
    """Machine name -> its node."""
    joining: frozenset[str]
    """Nodes of ours that are not initialised: startup taints and missing resources keep pods away."""
    making_room: frozenset[str]
    """Nodes that pods are leaving."""
    coming: frozenset[str] = frozenset()
    """Machines that stay and have no node yet."""

    @classmethod
    def of(
        cls, nodes: Mapping[str, Node], machines: Iterable[Machine], pods: Iterable[Pod]
    ) -> Homes:
        """Without nodes that go or are cordoned, or whose machine goes (SCH-53)."""
        staying = {n: node for n, node in nodes.items() if not node.terminating}
        by_provider = {node.provider_id: node for node in staying.values() if node.provider_id}
        by_machine = {}
        joining = {name for name, node in staying.items() if _is_joining(node)}
        coming = set()
        for machine in machines:
            node = by_provider.get(machine.provider_id) or staying.get(machine.node_name)
            if node is None:
                if not (machine.terminating or machine.node_name):
                    coming.add(machine.name)
                continue
            if machine.terminating:
                staying.pop(node.name, None)
                continue
            by_machine[machine.name] = node
            if machine.has(INITIALIZED):
                joining.discard(node.name)
        return cls(
            nodes={name: node for name, node in staying.items() if not node.unschedulable},
            by_machine=by_machine,
            joining=frozenset(joining),
            making_room=frozenset(p.node_name for p in pods if p.terminating and p.node_name),
            coming=frozenset(coming),
        )

    def node_for(self, target: str) -> Node | None:
        """The node to nominate for a promise: a node that is ready, or one of ours that comes up."""
        node = self.by_machine.get(target) or self.nodes.get(target)
        if node is None or node.name not in self.nodes:
            return None
        return node if node.ready or node.name in self.joining else None

    def can_bind(self, name: str) -> bool:
        """Could a pod that fits run there now?"""
        node = self.nodes.get(name)
        return node is not None and node.ready and name not in self.joining

    def is_settled(self, name: str) -> bool:
        """Has the node all the room it will have, for now?"""
        return self.can_bind(name) and name not in self.making_room


def _is_joining(node: Node) -> bool:
    return node.is_managed and not node.is_initialized


def honours_nominations(version: Mapping[str, object]) -> bool:
    """Does the scheduler of a server with this ``/version`` follow nominations that others write? Unreadable: no."""
    if str(version.get("gitVersion")).endswith(LOCAL_FLAVOUR):
        return True
    major, minor = str(version.get("major")), str(version.get("minor")).rstrip("+")
    if not (major.isascii() and major.isdigit() and minor.isascii() and minor.isdigit()):
        return False
    return (int(major), int(minor)) >= (1, FIRST_MINOR)


def promises_of(
    plan: Plan, created: Iterable[str], pods: Iterable[Pod], *, now: float
) -> dict[str, Promise]:
    """Pod UID -> promise, for pods that wait. ``created``: names of the plan's machines that exist now.

    Pods that still run on a node which goes are left out: what replaces them has other UIDs.
    """
    waiting = {pod.uid for pod in pods if is_provisionable(pod)}
    made = set(created)
    targets = {**plan.existing, **{m.name: m.pods for m in plan.machines if m.name in made}}
    return {
        uid: Promise(target, now + PROMISE_SECONDS)
        for target, uids in targets.items()
        for uid in uids
        if uid in waiting
    }


def newest(promises: dict[str, Promise]) -> dict[str, Promise]:
    """At most MOST_PROMISES of them, those added last."""
    return dict(list(promises.items())[-MOST_PROMISES:])


def followed(
    pods: Iterable[Pod], homes: Homes, before: Mapping[str, Nomination], *, now: float
) -> dict[str, Nomination]:
    """Pod UID -> how long its nomination stands, carried on from ``before``. ``pods``: all, bound ones too."""
    listed = list(pods)
    nominated = [pod for pod in listed if pod.nominated_node and not pod.node_name]
    if not nominated:
        return {}
    crowded = _crowded_out(listed, nominated, homes)
    found = {}
    for pod in nominated:
        known = before.get(pod.uid)
        if known is None or known.node != pod.nominated_node:
            known = Nomination(pod.nominated_node, now)
        since = now if known.bindable_since is None else known.bindable_since
        bindable = homes.is_settled(known.node)
        found[pod.uid] = Nomination(
            known.node, known.since, since if bindable else None, pod.uid not in crowded
        )
    return found


def _crowded_out(pods: Iterable[Pod], nominated: Iterable[Pod], homes: Homes) -> set[str]:
    """UIDs of nominated pods that their node has no room for beside what runs there and what goes before them."""
    desired = {pod.nominated_node for pod in nominated}
    room = {name: homes.nodes[name].allocatable for name in desired if homes.is_settled(name)}
    for pod in pods:
        if pod.node_name in room:
            room[pod.node_name] = subtract(room[pod.node_name], pod.requests)
    crowded = set()
    for pod in sorted(nominated, key=lambda p: (-p.priority, p.created_at, p.uid)):
        free = room.get(pod.nominated_node)
        if free is None:
            continue
        if fits(pod.requests, free):
            room[pod.nominated_node] = subtract(free, pod.requests)
        else:
            crowded.add(pod.uid)
    return crowded


def holds(node: str, nomination: Nomination | None, homes: Homes, *, now: float) -> bool:
    """Does a nomination to ``node`` still keep the pod from other capacity? ``nomination``: as it was followed so far;
    None for a new one."""
    if node not in homes.nodes:
        return False
    if node in homes.making_room or nomination is None or nomination.node != node:
        return True
    if not nomination.fits:
        return False
    if now - nomination.since > JOIN_SECONDS:
        return False
    return nomination.bindable_since is None or now - nomination.bindable_since <= BIND_SECONDS


def place_of(promise: Promise, homes: Homes, bindable: Mapping[str, float], *, now: float) -> str:
    """The node, or the machine without a node yet, that a promised pod counts on; empty when the promise is worth
    nothing now. ``bindable``: node -> since when it can take pods."""
    if promise.until <= now:
        return ""
    if promise.target in homes.coming:
        return promise.target
    node = homes.node_for(promise.target)
    if node is None:
        return ""
    since = max(bindable.get(node.name, now), promise.since)
    late = homes.can_bind(node.name) and now - since > LATE_SECONDS
    return "" if late else node.name


def counted_on(
    pods: Iterable[Pod],
    promises: Mapping[str, Promise],
    refused: Mapping[str, str],
    homes: Homes,
    bindable: Mapping[str, float],
    *,
    now: float,
) -> dict[str, str]:
    """UID -> node or machine of promised pods that nothing else is to be bought for, although they are not nominated
    yet: to plan them once more, beside those that are, breaks up what one plan has put together."""
    listed = list(pods)
    waiting = [pod for pod in listed if not pod.node_name]
    found = {}
    for pod in waiting:
        promise = promises.get(pod.uid)
        if promise is None or not is_provisionable(pod):
            continue
        place = place_of(promise, homes, bindable, now=now)
        if place and refused.get(pod.uid) != place:
            found[pod.uid] = place
    if not found:
        return {}
    meant = (
        msgspec.structs.replace(p, nominated_node=found.get(p.uid, p.nominated_node))
        for p in waiting
    )
    nominated = [pod for pod in meant if pod.nominated_node]
    crowded = _crowded_out(listed, nominated, homes)
    return {uid: place for uid, place in found.items() if uid not in crowded}


def settle(
    pods: Iterable[Pod], homes: Homes, nominations: Mapping[str, Nomination], *, now: float
) -> list[Pod]:
    """The pods as the planner must count them: nominated ones occupy their node, or wait again (POD-01)."""
    # Most pods of a large cluster run: they must cost no call.
    return [
        _settle(pod, homes, nominations, now) if pod.nominated_node and not pod.node_name else pod
        for pod in pods
    ]


def _settle(pod: Pod, homes: Homes, nominations: Mapping[str, Nomination], now: float) -> Pod:
    node = pod.nominated_node
    if holds(node, nominations.get(pod.uid), homes, now=now):
        return msgspec.structs.replace(pod, node_name=node)
    return msgspec.structs.replace(pod, nominated_node="")


def orders(
    pods: Mapping[str, Pod],
    promises: Mapping[str, Promise],
    homes: Homes,
    nominations: Mapping[str, Nomination],
    refused: Mapping[str, str],
    *,
    now: float,
) -> list[Order]:
    """What to write, the urgent first: ends, then all pods of the node that joined first, and so on, then those of
    nodes that can take pods already: kube-scheduler has tried their pods by now.

    ``pods``: by UID, those without a node. ``refused``: pod UID -> node that did not take it.
    """
    ends = [
        Order(pod, "")
        for uid, pod in pods.items()
        if pod.nominated_node
        and not holds(pod.nominated_node, nominations.get(uid), homes, now=now)
    ]
    found = []
    for uid, promise in promises.items():
        pod, node = pods.get(uid), homes.node_for(promise.target)
        if pod is None or node is None or not is_provisionable(pod):
            continue
        if refused.get(uid) != node.name:
            found.append(Order(pod, node.name))

    def urgency(order: Order) -> tuple[bool, float, str]:
        node = homes.nodes[order.node]
        return homes.can_bind(node.name), node.created_at, node.name

    return ends + sorted(found, key=urgency)
