"""Device claims become amounts before planning, so that the planner's arithmetic counts devices like CPU and memory.

``with_devices`` returns the snapshot with columns (see ``counting``) on instance types, nodes, machines and pods. A pod
whose claims can be met in several ways, such as ``firstAvailable``, keeps the preferred one; the others are returned
beside it. A claim that is allocated binds its pods to its nodes; pods that share one that is not are planned onto one
node, and its devices count once.

A pod whose claims cannot be understood or met gets a fault, which is its verdict. Without device claims the snapshot is
returned as it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.devices.counting import ANY, PREFIX, Columns, Variant, columns_for, variants
from shared.domain.devices.daemons import asked_by, taken_by
from shared.domain.devices.demands import Alternative, Ask, Claims, Predicate
from shared.domain.devices.extended import with_claims
from shared.domain.devices.inventory import (
    DRIVER_SECONDS,
    NOTHING,
    Inventory,
    PublishedDevices,
    expected,
)
from shared.domain.devices.matching import Shape, count_of
from shared.domain.devices.records import DriverDevices
from shared.domain.devices.sharing import Sharing, shared_claims
from shared.domain.devices.templates import devices_by_type
from shared.domain.expressions import Expression
from shared.domain.machines.machine import Machine
from shared.domain.nodes import DaemonSet, Node
from shared.domain.resources import Resources
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod, is_provisionable
from shared.errors import InvalidObject

UNKNOWN_DEVICES = (
    "no instance type of the catalogue and no node has such devices; change the selectors, or describe the devices of"
    " the instance types with a DeviceTemplate"
)
_MOST_SHOWN = 3


@dataclass(frozen=True)
class Reduced:
    """``others``: pod UID -> its requests in the ways that are tried after the first. ``notes``: pod UID -> an addition
    to its verdict."""

    snapshot: Snapshot
    others: Mapping[str, tuple[dict[str, int], ...]] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)

    def with_pods(self, pods: Iterable[Pod]) -> Reduced:
        """The same, with these of its pods."""
        return Reduced(replace(self.snapshot, pods=tuple(pods)), self.others, self.notes)


def with_devices(snapshot: Snapshot, *, now: float, reschedule: frozenset[str]) -> Reduced:
    """``now``: seconds since the epoch; ``reschedule``: UIDs of bound pods that need another node."""
    snapshot = with_claims(snapshot)
    pods = [pod for pod in snapshot.pods if _counts(pod, reschedule)]
    if not pods:
        return Reduced(snapshot)
    return _Reduction(snapshot, now, reschedule).reduced(pods)


def without_columns(resources: Resources) -> dict[str, int]:
    """The resources without those that stand for devices."""
    return {name: amount for name, amount in resources.items() if not name.startswith(PREFIX)}


def _counts(pod: Pod, reschedule: frozenset[str]) -> bool:
    """Does a plan place this pod, or has a plan placed it already, so that its devices are as good as taken?"""
    if not pod.device_claims or pod.faults or pod.is_terminal:
        return False
    return is_provisionable(pod) or pod.uid in reschedule or bool(pod.node_name)


class _Reduction:
    def __init__(self, snapshot: Snapshot, now: float, reschedule: frozenset[str]) -> None:
        self._snapshot, self._now, self._reschedule = snapshot, now, reschedule
        self._claims = Claims(
            snapshot.resource_claims, snapshot.claim_templates, snapshot.device_classes
        )
        self._by_type = devices_by_type(snapshot.catalogue, snapshot.device_templates)
        self._shapes: dict[bytes, int] = {}
        self.shapes: list[Shape] = []
        self._amounts: list[dict[str, int]] = []
        self._type_at = {name: self._shape(expected(d)) for name, d in self._by_type.items()}
        self._node_at = self._shapes_of_nodes()
        by_name = {node.name: node for node in snapshot.nodes}
        self._nodes_by_id = {**by_name, **{n.provider_id: n for n in snapshot.nodes}}
        self._faults: dict[str, str] = {}

    def _shape(self, inventory: Inventory) -> int:
        at = self._shapes.setdefault(inventory.key(), len(self.shapes))
        if at == len(self.shapes):
            self.shapes.append(Shape(inventory))
        return at

    def _shapes_of_nodes(self) -> dict[str, int]:
        published = PublishedDevices(
            self._snapshot.resource_slices,
            [one for one in self._snapshot.resource_claims if not self._moves(one.reserved_for)],
        )
        found = {}
        for node in self._snapshot.nodes:
            inventory = published.on(node.name, self._coming(node))
            if inventory != NOTHING:
                found[node.name] = self._shape(inventory)
        return found

    def _moves(self, reserved_for: tuple[str, ...]) -> bool:
        """Do all pods of a claim go to another node, so that it is allocated anew?"""
        return bool(reserved_for) and self._reschedule.issuperset(reserved_for)

    def _coming(self, node: Node) -> tuple[DriverDevices, ...]:
        """The devices whose drivers may still publish them on this node."""
        if not node.is_managed or self._now - node.created_at > DRIVER_SECONDS:
            return ()
        return self._by_type.get(node.labels.get(keys.INSTANCE_TYPE, ""), ())

    def reduced(self, pods: list[Pod]) -> Reduced:
        """The snapshot with columns."""
        sharing = shared_claims(pods, self._claims, self._reschedule)
        asked = {pod.uid: found for pod in pods if (found := self._asked(pod, sharing)) is not None}
        daemons = asked_by(self._snapshot.daemon_sets, self._claims)
        # Those of pods first: where too many overlap, the daemon sets count without devices.
        predicates = dict.fromkeys(
            ask.predicate
            for ways in (*asked.values(), *daemons.values())
            for way in ways
            for ask in way.asks
        )
        columns = columns_for(list(predicates), self.shapes)
        self._amounts = [columns.amounts(shape) for shape in self.shapes]
        requests, changed = self._requests(pods, asked, columns), {}
        for pod in pods:
            changed[pod.uid] = self._changed(pod, requests.get(pod.uid, ()), sharing)
        notes = {uid: _note(ways) for uid, ways in asked.items() if ways and ways[0].asks}
        counted = self._with_amounts({p.uid: changed.get(p.uid, p) for p in self._snapshot.pods})
        return Reduced(
            replace(counted, daemon_sets=self._daemon_sets(daemons, columns)),
            {uid: ways[1:] for uid, ways in requests.items() if len(ways) > 1},
            notes,
        )

    def _asked(self, pod: Pod, sharing: Sharing) -> tuple[Alternative, ...] | None:
        """What the pod needs beyond allocated claims; None for nothing, and for a pod with a fault."""
        moves = pod.uid in self._reschedule
        if pod.node_name and not moves and self._is_served(pod):
            return None
        try:
            return self._claims.alternatives(pod, settled=not moves, without=sharing.by_others(pod))
        except InvalidObject as error:
            self._faults[pod.uid] = str(error)
            return None

    def _is_served(self, pod: Pod) -> bool:
        """Is a bound pod's every claim allocated? Its devices count as held."""
        claims = self._claims.of(pod)
        return len(claims) == len(pod.device_claims) and all(one.is_allocated for one in claims)

    def _requests(
        self, pods: list[Pod], asked: Mapping[str, tuple[Alternative, ...]], columns: Columns
    ) -> dict[str, tuple[dict[str, int], ...]]:
        """Pod UID -> its requests in each way, the preferred one first."""
        known: dict[tuple[Alternative, ...], tuple[dict[str, int], ...] | str] = {}
        found = {}
        for pod in pods:
            ways = asked.get(pod.uid)
            if ways is None:
                continue
            if ways not in known:
                known[ways] = self._ways(ways, columns)
            taken = known[ways]
            if isinstance(taken, str):
                self._faults[pod.uid] = taken
            else:
                found[pod.uid] = self._of_pod(pod, taken)
        return found

    def _of_pod(self, pod: Pod, ways: tuple[dict[str, int], ...]) -> tuple[dict[str, int], ...]:
        """A pod that an earlier plan placed takes what it takes there."""
        if pod.node_name and pod.uid not in self._reschedule and len(ways) > 1:
            there = self._amounts_of(pod.node_name)
            fitting = (way for way in ways if all(there.get(n, 0) >= a for n, a in way.items()))
            ways = (next(fitting, ways[0]),)
        return tuple({**pod.requests, **way} for way in ways)

    def _amounts_of(self, name: str) -> Resources:
        """Of a node, or of a machine with a known type."""
        at = self._node_at.get(name)
        if at is None:
            kinds = (m.instance_type for m in self._snapshot.machines if m.name == name)
            at = self._type_at.get(next(kinds, ""))
        return self._amounts[at] if at is not None else {}

    def _ways(
        self, alternatives: tuple[Alternative, ...], columns: Columns
    ) -> tuple[dict[str, int], ...] | str:
        """What a pod takes of the columns in each way; or why there is none."""
        found: list[dict[str, int]] = []
        for one in alternatives:
            if not one.asks:
                return ({},)
            crowded = [ask for ask in one.asks if ask.predicate in columns.crowded]
            if crowded:
                return (
                    f"{crowded[0].where}: too many different requests for the same devices wait at"
                    " once; it is planned when some of them have their devices"
                )
            for variant in variants(one, self.shapes, self._amounts, columns):
                demand = self._restricted(variant)
                if demand not in found:
                    found.append(demand)
        return tuple(found) or self._why_none(alternatives)

    def _restricted(self, variant: Variant) -> dict[str, int]:
        """The demand, with a column that only the variant's shapes have where others would pass."""
        if not (variant.excludes or variant.per_shape):
            return variant.demand
        name = self._extra_column(variant)
        return {**variant.demand, name: 1}

    def _extra_column(self, variant: Variant) -> str:
        given = variant.per_shape or (ANY,) * len(variant.shapes)
        held = dict(zip(variant.shapes, given, strict=True))
        number = sum(name.startswith(f"{PREFIX}fitting-") for one in self._amounts for name in one)
        name = f"{PREFIX}fitting-{number + 1}"
        for at, amount in held.items():
            self._amounts[at][name] = amount
        return name

    def _why_none(self, alternatives: tuple[Alternative, ...]) -> str:
        asks = dict.fromkeys(ask for one in alternatives for ask in one.asks)
        if texts := [text for ask in asks if (text := self._why_not(ask))]:
            return "; ".join(texts[:_MOST_SHOWN])
        first = alternatives[0].asks[0]
        return (
            f"{first.where}: no machine has the devices of all requests at once, with the constraints"
            " of the claim; ask for fewer devices, or drop a constraint"
        )

    def _why_not(self, ask: Ask) -> str:
        rows = [shape.suiting(ask.predicate) for shape in self.shapes]
        most = max(map(len, rows), default=0)
        if most == 0:
            faults = (shape.faults.get(ask.predicate, "") for shape in self.shapes)
            fault = next(filter(None, faults), "")
            because = f" (a selector failed: {fault})" if fault else ""
            return f"{ask.where}: {UNKNOWN_DEVICES}{because}"
        if any(
            (count_of(ask, shape) or ANY) <= len(r)
            for r, shape in zip(rows, self.shapes, strict=True)
        ):
            return ""
        if ask.takes_all:
            return (
                f"{ask.where}: asks for all devices of a node, and wherever there are any one is in use or has a taint;"
                " add a toleration, or ask for a number"
            )
        return (
            f"{ask.where}: asks for {ask.count} devices of one node, which have at most {most};"
            " lower the count"
        )

    def _changed(self, pod: Pod, ways: tuple[dict[str, int], ...], sharing: Sharing) -> Pod:
        if fault := self._faults.get(pod.uid):
            return pod if pod.node_name else replace(pod, faults=(*pod.faults, fault))
        if ways:
            pod = replace(pod, requests=ways[0])
        pod = sharing.bound(pod)
        stays = bool(pod.node_name) and pod.uid not in self._reschedule
        return pod if stays else self._pinned(pod)

    def _pinned(self, pod: Pod) -> Pod:
        """The pod with the nodes of its allocated claims as a requirement."""
        if pod.uid in self._reschedule:
            return pod
        terms: tuple[Expression, ...] = ()
        for claim in self._claims.of(pod):
            if claim.is_allocated and claim.node_names:
                hosts = tuple(
                    node.labels.get(keys.HOSTNAME, node.name)
                    for node in self._snapshot.nodes
                    if node.name in claim.node_names
                )
                if not hosts:
                    text = (
                        f'resource claim "{claim.key}": its devices are on node'
                        f' "{claim.node_names[0]}", which is gone; delete the claim'
                    )
                    return replace(pod, faults=(*pod.faults, text))
                terms = (*terms, Expression(keys.HOSTNAME, "In", hosts))
            elif claim.is_allocated and len(claim.nodes) == 1:
                terms = (*terms, *claim.nodes[0])
        if not terms:
            return pod
        required = tuple((*term, *terms) for term in pod.required_terms or ((),))
        return replace(pod, required_terms=required)

    def _with_amounts(self, pods: Mapping[str, Pod]) -> Snapshot:
        given = self._snapshot
        catalogue = given.catalogue
        types = tuple(
            replace(kind, capacity={**kind.capacity, **self._amounts[self._type_at[kind.name]]})
            if kind.name in self._type_at
            else kind
            for kind in catalogue.types
        )
        return replace(
            given,
            pods=tuple(pods[pod.uid] for pod in given.pods),
            nodes=tuple(_enlarged(one, self._at_node(one)) for one in given.nodes),
            machines=tuple(_enlarged(one, self._at_machine(one)) for one in given.machines),
            catalogue=replace(catalogue, types=types),
        )

    def _daemon_sets(
        self, asked: Mapping[str, tuple[Alternative, ...]], columns: Columns
    ) -> tuple[DaemonSet, ...]:
        return tuple(
            replace(one, devices=taken_by(asked[one.uid], self._type_at, self.shapes, columns))
            if one.uid in asked
            else one
            for one in self._snapshot.daemon_sets
        )

    def _at_node(self, node: Node) -> Resources:
        at = self._node_at.get(node.name)
        return {} if at is None else self._amounts[at]

    def _at_machine(self, machine: Machine) -> Resources:
        """Of a launched machine. Its node takes these for what it reports as zero while it is not initialised, so what
        the node shows comes first."""
        if not machine.allocatable:
            return {}
        names = (name for name in (machine.provider_id, machine.node_name) if name)
        node = next(filter(None, map(self._nodes_by_id.get, names)), None)
        if node is not None and node.name in self._node_at:
            return self._at_node(node)
        late = node is not None and self._now - node.created_at > DRIVER_SECONDS
        at = None if late else self._type_at.get(machine.instance_type)
        return {} if at is None else self._amounts[at]


_Sized = TypeVar("_Sized", Node, Machine)


def _enlarged(one: _Sized, amounts: Resources) -> _Sized:
    return replace(one, allocatable={**one.allocatable, **amounts}) if amounts else one


def _note(ways: Iterable[Alternative]) -> str:
    """What the pod's claims ask for, for its verdict."""
    shown = []
    for way in ways:
        counts: dict[Predicate, int] = defaultdict(int)
        for ask in way.asks:
            counts[ask.predicate] += ask.count
        shown.append(
            " and ".join(f"{count} of class {one.device_class}" for one, count in counts.items())
        )
    listed = list(dict.fromkeys(shown))
    return f"; its resource claims ask for {' or '.join(listed[:3])}"
