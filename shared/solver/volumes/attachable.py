"""How many volumes new machines will attach: known before their CSINode says it, so no pod waits for a second machine.

The limit of an instance type is what its running nodes say, else what EC2 says of it. It becomes a column as devices do
(``shared.domain.devices.counting``), on instance types and on nodes whose CSINode says nothing yet; other nodes keep
their own limits (``reach.Attachments``).

What may go wrong: the driver is set to keep more places free than usual. Then a few pods wait, as without these limits,
until the first node of the type says how many it attaches. A claim of several pods is not counted, because they may
share a machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeVar

from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.devices.counting import ANY
from shared.domain.instance_types.types import Catalogue
from shared.domain.machines.machine import Machine
from shared.domain.nodes import Node
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.by_node import Noted, PodsByNode, by_node
from shared.domain.workloads.kept import Known, Recent, same
from shared.domain.workloads.pods import Pod
from shared.solver.volumes.reach import COLUMN, Volumes, claim_keys

Limits = Mapping[str, Mapping[str, int]]
"""Instance type -> driver -> volumes; ANY for a driver without a known limit. All types have the same drivers."""
_Sized = TypeVar("_Sized", Node, Machine)

_claiming = Noted(lambda pods: tuple(pod for pod in pods if pod.volume_claims))
_using = Noted(lambda pods: Counter(key for pod in pods for key in claim_keys(pod)))
_catalogues = Recent[tuple[Catalogue, Limits, Catalogue]]()
"""The last one, since a plan encodes a catalogue once."""
_read = Recent[tuple[Snapshot, Limits]]()
"""The limits of the last snapshot whose nodes and types were others."""
_known = Known[str, tuple[Node, Mapping[str, int], Node]]()


def with_attachable_volumes(snapshot: Snapshot, reschedule: frozenset[str]) -> Snapshot:
    """The snapshot with columns for the volumes of its pods; the same one where nothing limits them.

    ``reschedule``: UIDs of bound pods that need another node.
    """
    nodes = {node.name for node in snapshot.nodes}
    bound = by_node(snapshot.pods)
    placed = [
        pod
        for name, pods in _claiming.of(bound)
        for pod in pods
        if name not in nodes or pod.uid in reschedule
    ]
    limits = _limits(snapshot) if placed else {}
    if not limits:
        return snapshot
    volumes = Volumes(snapshot)
    asked = _asked(placed, bound, volumes, limits)
    if not asked:
        return snapshot
    return replace(
        snapshot,
        pods=tuple(
            replace(pod, requests={**pod.requests, **asked[pod.uid]}) if pod.uid in asked else pod
            for pod in snapshot.pods
        ),
        nodes=_with_room(snapshot, limits, bound, reschedule, volumes),
        machines=tuple(_launched(one, limits) for one in snapshot.machines),
        catalogue=_catalogue(snapshot.catalogue, limits),
    )


def _column(driver: str) -> str:
    return f"{COLUMN}{driver}"


def _limits(snapshot: Snapshot) -> Limits:
    """Of each type, for every driver that is limited somewhere."""
    for of, found in _read:
        if (
            of.catalogue is snapshot.catalogue
            and of.csi_nodes is snapshot.csi_nodes
            and same(of.nodes, snapshot.nodes)
        ):
            return found
    found = _limits_of_types(snapshot)
    # The same object while it says the same: the catalogue with its columns is then the same, too.
    known = next((before for _, before in _read if before == found), found)
    return _read.add((snapshot, known))[1]


def _limits_of_types(snapshot: Snapshot) -> Limits:
    """The least that a running node of the type says, or what EC2 says; ANY where neither is known."""
    types = {node.name: node.labels.get(keys.INSTANCE_TYPE, "") for node in snapshot.nodes}
    said: dict[str, dict[str, int]] = {}
    for csi in snapshot.csi_nodes:
        for driver, limit in csi.limits.items() if types.get(csi.name) else ():
            own = said.setdefault(types[csi.name], {})
            own[driver] = min(own.get(driver, limit), limit)
    by_type = {
        kind.name: {
            **kind.volume_limits,
            **{
                driver: min(limit, kind.volume_limits.get(driver, limit))
                for driver, limit in said.get(kind.name, {}).items()
            },
        }
        for kind in snapshot.catalogue.types
    }
    drivers = {driver for own in by_type.values() for driver in own}
    known = [kind.volume_limits for kind in snapshot.catalogue.types]
    # A type of which EC2 says nothing is not preferred for that.
    usual = {
        one: max((own[one] for own in known if one in own), default=ANY) for one in sorted(drivers)
    }
    return {name: {**usual, **own} for name, own in by_type.items()} if drivers else {}


def _asked(
    placed: Iterable[Pod], bound: PodsByNode, volumes: Volumes, limits: Limits
) -> dict[str, dict[str, int]]:
    """Pod UID -> column -> its own volumes. A claim that other pods use is not counted."""
    drivers = next(iter(limits.values()))
    wanted = [
        (pod.uid, driver, claim)
        for pod in placed
        for driver, claim in volumes.of(pod)
        if driver in drivers
    ]
    users = [using for _, using in _using.of(bound)] if wanted else []
    found: dict[str, dict[str, int]] = {}
    for uid, driver, claim in wanted:
        if sum(using[claim] for using in users if claim in using) == 1:
            own = found.setdefault(uid, {})
            own[_column(driver)] = own.get(_column(driver), 0) + 1
    return found


def _with_room(
    snapshot: Snapshot,
    limits: Limits,
    bound: PodsByNode,
    reschedule: frozenset[str],
    volumes: Volumes,
) -> tuple[Node, ...]:
    said = {csi.name: csi.limits for csi in snapshot.csi_nodes}
    unlimited = dict.fromkeys(next(iter(limits.values())), ANY)
    _known.forget_gone(len(snapshot.nodes))
    found = []
    for node in snapshot.nodes:
        own = limits.get(node.labels.get(keys.INSTANCE_TYPE, "")) if node.is_managed else None
        room = dict(unlimited)
        # Where its CSINode has a limit, that one counts, with the volumes by name.
        left = [one for one in own or () if one not in said.get(node.name, {})]
        if own is not None and left:
            held = _held(bound.get(node.name, ()), reschedule, volumes)
            room |= {one: max(own[one] - held[one], 0) for one in left}
        found.append(_same_node(node, room))
    return tuple(found)


def _held(pods: Iterable[Pod], reschedule: frozenset[str], volumes: Volumes) -> Counter[str]:
    """Driver -> volumes of the pods that stay on a node."""
    stay = (pod for pod in pods if pod.uid not in reschedule)
    return Counter(driver for driver, _ in {one for pod in stay for one in volumes.of(pod)})


def _same_node(node: Node, room: Mapping[str, int]) -> Node:
    """The same object for the same node and room, by which planning knows it again."""
    known = _known.get(node.name)
    if known is None or known[0] is not node or known[1] != room:
        known = _known[node.name] = node, room, _sized(node, room)
    return known[2]


def _launched(machine: Machine, limits: Limits) -> Machine:
    """Its node, once it has joined, has its own room. A machine without amounts is not launched yet."""
    if not machine.allocatable:
        return machine
    unlimited = dict.fromkeys(next(iter(limits.values())), ANY)
    return _sized(machine, limits.get(machine.instance_type, unlimited))


def _sized(one: _Sized, room: Mapping[str, int]) -> _Sized:
    columns = {_column(driver): amount for driver, amount in room.items()}
    return replace(one, allocatable={**one.allocatable, **columns})


def _catalogue(catalogue: Catalogue, limits: Limits) -> Catalogue:
    for of, known, found in _catalogues:
        if of is catalogue and known is limits:
            return found
    types = tuple(
        replace(
            kind,
            capacity={**kind.capacity, **{_column(d): n for d, n in limits[kind.name].items()}},
        )
        for kind in catalogue.types
    )
    return _catalogues.add((catalogue, limits, replace(catalogue, types=types)))[2]
