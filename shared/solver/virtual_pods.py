"""Where virtual pods are: on nodes that run, on machines that start, or nowhere yet (GAT-02, GAT-04).

Nobody remembers that: it is computed anew from the snapshot, where every process finds the same places. Pods that wait
and pods that must leave their nodes get their places first; only room that a check of capacity found for a request is
kept from them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from msgspec.structs import replace

from shared.domain.snapshot import Snapshot, moving_pods
from shared.domain.workloads.by_node import any_virtual
from shared.domain.workloads.capacity_buffers import PodTemplate
from shared.domain.workloads.pods import Pod
from shared.domain.workloads.provisioning_requests import (
    ATOMIC,
    BOOK_PARTIAL,
    CHECK_CAPACITY,
    ProvisioningRequest,
    Stage,
)
from shared.domain.workloads.virtual_pods import request_pod_sets, request_pods, virtual_pods
from shared.solver.plan import Plan
from shared.solver.solve import SolverSettings, solve


def keeps_room(snapshot: Snapshot) -> bool:
    """Has the snapshot anything that may ask for room?"""
    return bool(snapshot.buffers or snapshot.requests)


def with_virtual_pods(snapshot: Snapshot, settings: SolverSettings, *, now: float) -> Snapshot:
    """The snapshot in which virtual pods wait too. Those that may use only what is there are bound, or left out."""
    if not keeps_room(snapshot):
        return snapshot
    templates = templates_of(snapshot)
    booked = _of_requests(snapshot, templates, CHECK_CAPACITY, (Stage.BOOKED,), now)
    if booked:
        bound = [pod for pod in snapshot.pods if pod.node_name]
        homes = _homes(replace(snapshot, pods=(*bound, *booked)), settings, now)
        snapshot = replace(snapshot, pods=(*snapshot.pods, *_bound(booked, homes)))
    waiting = virtual_pods(snapshot.buffers, templates)
    waiting += _of_requests(snapshot, templates, ATOMIC, (Stage.OPEN, Stage.BOOKED), now)
    return replace(snapshot, pods=(*snapshot.pods, *waiting))


def templates_of(snapshot: Snapshot) -> dict[str, PodTemplate]:
    """By key."""
    return {one.key: one for one in snapshot.pod_templates}


def _of_requests(
    snapshot: Snapshot,
    templates: dict[str, PodTemplate],
    class_name: str,
    stages: Collection[Stage],
    now: float,
) -> list[Pod]:
    found: list[Pod] = []
    for request in snapshot.requests:
        if (
            request.class_name == class_name
            and not request.faults
            and request.stage(now=now) in stages
        ):
            pods = request_pods(request, templates, consumers(snapshot, request))
            found += [] if isinstance(pods, str) else pods
    return found


def consumers(snapshot: Snapshot, request: ProvisioningRequest) -> list[Pod]:
    """The real pods that use the room of a request."""
    return [
        pod
        for pod in snapshot.pods
        if pod.consumes == request.name and pod.namespace == request.namespace and not pod.virtual
    ]


def seated(snapshot: Snapshot, settings: SolverSettings, *, now: float) -> Snapshot:
    """The snapshot with its virtual pods, those bound that fit on nodes that run; the others wait."""
    whole = with_virtual_pods(snapshot, settings, now=now)
    waiting = [pod for pod in whole.pods if pod.virtual and not pod.node_name]
    if not waiting:
        return whole
    # A part of a gang may have room here, and keeps it.
    alone = tuple(replace(p, gang="") if p.virtual and p.gang else p for p in whole.pods)
    homes = _homes(replace(whole, pods=alone), settings, now)
    running = running_nodes(snapshot)
    homes = {uid: name for uid, name in homes.items() if name in running}
    return replace(
        whole,
        pods=tuple(
            replace(pod, node_name=homes[pod.uid], phase="Running")
            if pod.virtual and pod.uid in homes
            else pod
            for pod in whole.pods
        ),
    )


def _homes(snapshot: Snapshot, settings: SolverSettings, now: float) -> dict[str, str]:
    """UID -> node or machine, of the pods that find a place on what is there."""
    plan = solve(
        replace(snapshot, pools=()), now=now, settings=settings, reschedule=moving_pods(snapshot)
    )
    return {uid: name for name, uids in plan.existing.items() for uid in uids}


def _bound(pods: Collection[Pod], homes: dict[str, str]) -> list[Pod]:
    return [
        replace(pod, node_name=homes[pod.uid], phase="Running") for pod in pods if pod.uid in homes
    ]


def checked(
    snapshot: Snapshot, plan: Plan, settings: SolverSettings, *, now: float
) -> dict[str, tuple[int, ...]]:
    """UID of each open request that asks for a check -> indices of the pod sets for which nodes that run have room,
    beside what the plan put there. ``snapshot``: what was planned. Room that a request keeps is not the next one's."""
    homes = {uid: name for name, uids in plan.existing.items() for uid in uids}
    there = [replace(pod, node_name=homes.get(pod.uid, pod.node_name)) for pod in snapshot.pods]
    bound = [pod for pod in there if pod.node_name]
    running = running_nodes(snapshot)
    answers: dict[str, tuple[int, ...]] = {}
    for request in snapshot.requests:
        open_ = request.stage(now=now) == Stage.OPEN and not request.faults
        if request.class_name != CHECK_CAPACITY or not open_:
            continue
        sets = request_pod_sets(request, templates_of(snapshot))
        if isinstance(sets, str):
            continue
        held: list[Pod] = []
        fitting: list[int] = []
        for indices, pods in _looked_at_together(request, sets):
            found = _homes(replace(snapshot, pods=(*bound, *held, *pods)), settings, now)
            if all(found.get(pod.uid) in running for pod in pods):
                fitting += indices
                held += _bound(pods, found)
        answers[request.uid] = tuple(fitting)
        if len(fitting) == len(sets) or request.partial == BOOK_PARTIAL:
            bound += held
    return answers


def _looked_at_together(
    request: ProvisioningRequest, sets: tuple[tuple[int, tuple[Pod, ...]], ...]
) -> Iterator[tuple[list[int], tuple[Pod, ...]]]:
    if request.partial:
        yield from (([index], pods) for index, pods in sets)
    else:
        yield [index for index, _ in sets], tuple(pod for _, pods in sets for pod in pods)


def lost_room(snapshot: Snapshot, plan: Plan, *, now: float) -> dict[str, str]:
    """UID of each request whose room is kept -> why a part of it is gone and cannot be had again. ``snapshot``: what
    was planned, with its virtual pods."""
    found: dict[str, str] = {}
    for request in snapshot.requests:
        if request.faults or request.stage(now=now) != Stage.BOOKED:
            continue
        mine = [
            pod
            for pod in snapshot.pods
            if pod.virtual and pod.owner and pod.owner.uid == request.uid
        ]
        if request.class_name == ATOMIC:
            whys = [plan.unschedulable[pod.uid] for pod in mine if pod.uid in plan.unschedulable]
            found |= {request.uid: whys[0]} if whys else {}
        elif request.class_name == CHECK_CAPACITY:
            pods = request_pods(request, templates_of(snapshot), consumers(snapshot, request))
            if not isinstance(pods, str) and len(mine) < len(pods):
                text = f"nodes that run have room for {len(mine)} of {len(pods)} pods"
                found[request.uid] = text
    return found


def running_nodes(snapshot: Snapshot) -> frozenset[str]:
    """Names of the nodes that take pods at once."""
    return frozenset(n.name for n in snapshot.nodes if n.is_initialized or not n.is_managed)


def without_virtual_pods(plan: Plan, snapshot: Snapshot) -> Plan:
    """What the plan means for real pods: its machines, and the places and verdicts of those."""
    if not any_virtual(snapshot.pods):
        return plan
    virtual = {pod.uid for pod in snapshot.pods if pod.virtual}
    real = {
        name: tuple(u for u in uids if u not in virtual) for name, uids in plan.existing.items()
    }
    return replace(
        plan,
        existing={name: uids for name, uids in real.items() if uids},
        unschedulable={u: text for u, text in plan.unschedulable.items() if u not in virtual},
    )
