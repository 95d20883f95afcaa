"""Plans with devices against an allocator of its own, which tries every assignment of devices to pods."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import combinations

import pytest

from shared.domain.devices.records import ClaimTemplate, Device, ResourceSlice, Wanted
from shared.domain.snapshot import Snapshot
from shared.solver.plan import Plan
from tests.support.planning.builders import make_catalogue, make_node, make_snapshot, make_type
from tests.support.planning.devices import (
    GPU,
    GPU_CLASS,
    allocated,
    claiming_pod,
    make_claim_template,
    make_device_template,
    make_resource_claim,
    make_slice,
    plan_devices,
    spec_of,
    want,
)

SEEDS = range(60)
KINDS = ("red", "green", "blue")


def selector(colours: Sequence[str]) -> str:
    listed = ", ".join(f'"{one}"' for one in colours)
    return f'device.attributes["{GPU}"].colour in [{listed}]'


def devices(rng: random.Random) -> tuple[Device, ...]:
    chosen = [rng.choice(KINDS) for _ in range(rng.randint(1, 6))]
    return tuple(Device(f"d{at}", {f"{GPU}/colour": one}) for at, one in enumerate(chosen))


def wanted(rng: random.Random, name: str) -> Wanted:
    colours = rng.sample(KINDS, rng.randint(1, 3))
    return want(rng.randint(1, 3), selector(sorted(colours)), name=name)


def situation(rng: random.Random) -> Snapshot:
    """Some instance types and a node with coloured devices, and pods that want several of some colours."""
    types = tuple(make_type(f"m5.x{at}", 64, 256, 100 * (at + 1)) for at in range(3))
    described = tuple(make_device_template(one.name, (one.name,), devices(rng)) for one in types)
    templates = [
        make_claim_template(
            spec_of(*(wanted(rng, f"gpu/{n}") for n in range(rng.randint(1, 2)))), f"t{at}"
        )
        for at in range(3)
    ]
    published = make_slice("node-1", devices(rng))
    held = [one.name for one in published.devices if rng.random() < 0.3]
    return make_snapshot(
        *(claiming_pod(f"p{at}", f"t{rng.randrange(3)}") for at in range(rng.randint(1, 7))),
        catalogue=make_catalogue(types),
        device_classes=(GPU_CLASS,),
        device_templates=described,
        claim_templates=tuple(templates),
        nodes=(make_node("node-1", "64", "256Gi"),),
        resource_slices=(published,),
        resource_claims=(make_resource_claim(spec_of(want()), "h", **allocated("node-1", *held)),),
    )


def assignable(asks: list[ClaimTemplate], free: frozenset[str], colours: dict[str, str]) -> bool:
    """Is there an assignment of free devices to these claims? Every combination is tried."""
    if not asks:
        return True
    (request,) = asks[0].spec.requests
    for one in request.alternatives:
        fitting = [d for d in sorted(free) if f'"{colours[d]}"' in one.selectors[0]]
        for chosen in combinations(fitting, one.count):
            if assignable(asks[1:], free - set(chosen), colours):
                return True
    return False


def coloured(given: Sequence[Device]) -> dict[str, str]:
    return {one.name: str(one.attributes[f"{GPU}/colour"]) for one in given}


def placed(
    plan: Plan, snapshot: Snapshot
) -> Iterator[tuple[str, list[ClaimTemplate], dict[str, str]]]:
    """(where, claims of the pods, colours of the free devices) for each node, and each type of each machine."""
    templates = {one.name: one for one in snapshot.claim_templates}
    claims = {pod.uid: templates[pod.device_claims[0].template] for pod in snapshot.pods}
    by_type = {one.name: one.drivers[0].devices for one in snapshot.device_templates}
    for machine in plan.machines:
        for name in machine.instance_types:
            yield name, [claims[uid] for uid in machine.pods], coloured(by_type[name])
    slices: dict[str, ResourceSlice] = {one.node_name: one for one in snapshot.resource_slices}
    taken = {one.device for claim in snapshot.resource_claims for one in claim.devices}
    for name, uids in plan.existing.items():
        free = [one for one in slices[name].devices if one.name not in taken]
        yield name, [claims[uid] for uid in uids], coloured(free)


@pytest.mark.parametrize("seed", SEEDS)
def test_all_pods_of_a_machine_find_their_devices_at_once(seed: int) -> None:
    """DRA-01: on every instance type that a machine may become, and on nodes with what claims leave free."""
    snapshot = situation(random.Random(seed))
    for where, claims, colours in placed(plan_devices(snapshot), snapshot):
        assert assignable(claims, frozenset(colours), colours), where


@pytest.mark.parametrize("seed", SEEDS)
def test_a_pod_waits_only_if_no_machine_has_its_devices(seed: int) -> None:
    """DRA-02: the reason of a pod that waits is true."""
    snapshot = situation(random.Random(seed))
    plan = plan_devices(snapshot)
    templates = {one.name: one for one in snapshot.claim_templates}
    for pod in snapshot.pods:
        if pod.uid in plan.unschedulable:
            for described in snapshot.device_templates:
                colours = coloured(described.drivers[0].devices)
                claim = templates[pod.device_claims[0].template]
                assert not assignable([claim], frozenset(colours), colours)


def test_the_situations_are_not_trivial() -> None:
    """Some pods share machines, some take the node, some wait."""
    plans = [plan_devices(situation(random.Random(seed))) for seed in SEEDS]
    assert any(len(machine.pods) > 2 for plan in plans for machine in plan.machines)
    assert any(len(uids) > 1 for plan in plans for uids in plan.existing.values())
    assert any(plan.unschedulable for plan in plans)


@pytest.mark.parametrize("seed", range(5))
def test_equal_inputs_give_equal_plans(seed: int) -> None:
    """SCH-01: also when the objects come in another order."""
    snapshot = situation(random.Random(seed))
    assert plan_devices(snapshot) == plan_devices(situation(random.Random(seed)))
