"""Pods whose resource claims ask for devices get machines that have them, and no more pods than devices."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.devices.inventory import DRIVER_SECONDS
from shared.domain.devices.records import ALL, EXACT, Constraint, DeviceTaint, Request
from shared.domain.expressions import Toleration
from shared.domain.snapshot import Snapshot
from shared.solver.plan import Plan
from shared.solver.solve import SolverSettings, solve
from tests.support.planning.builders import (
    make_bound_pod,
    make_catalogue,
    make_machine,
    make_node,
    make_pod,
    make_snapshot,
)
from tests.support.planning.devices import (
    COUNTING,
    GPU,
    GPU_CLASS,
    allocated,
    claiming_pod,
    gpu_type,
    gpus,
    make_claim_template,
    make_device_template,
    make_resource_claim,
    make_slice,
    plan_devices,
    product_is,
    sharing_pod,
    spec_of,
    want,
)

L4 = gpu_type("g6.12xlarge", "l4", 4, 22888, price=4_600_000)
H100 = gpu_type("p5.48xlarge", "h100", 8, 81920, price=55_000_000)
SMALL = gpu_type("g6.xlarge", "l4", 1, 22888, price=800_000)
CATALOGUE = make_catalogue((L4, H100, SMALL, *make_catalogue().types))


def cluster(*pods: object, spec: object = None, **changes: object) -> Snapshot:
    template = make_claim_template(spec or spec_of(want()))  # type: ignore[arg-type]
    fields = {
        "catalogue": CATALOGUE,
        "device_classes": (GPU_CLASS,),
        "claim_templates": (template,),
        **changes,
    }
    return make_snapshot(*pods, **fields)  # type: ignore[arg-type]


def pods(count: int, **changes: object) -> tuple[object, ...]:
    return tuple(claiming_pod(f"pod-{at:02d}", **changes) for at in range(count))  # type: ignore[arg-type]


def loads(plan: Plan) -> list[tuple[str, int]]:
    """(cheapest type, number of pods) of each machine."""
    return sorted((one.instance_type, len(one.pods)) for one in plan.machines)


def reason(plan: Plan) -> str:
    (text,) = plan.unschedulable.values()
    return text


def test_a_machine_takes_as_many_pods_as_it_has_devices() -> None:
    """DRA-01."""
    plan = plan_devices(cluster(*pods(9)))
    assert not plan.unschedulable
    assert sum(len(one.pods) for one in plan.machines) == 9
    counts = {"g6.12xlarge": 4, "p5.48xlarge": 8, "g6.xlarge": 1}
    for machine in plan.machines:
        assert all(len(machine.pods) <= counts[name] for name in machine.instance_types)
        assert not any("devices/" in name for name in machine.requests)


def test_the_product_of_a_selector_decides_the_instance_types() -> None:
    """DRA-01: a CEL selector of the request, beside that of the class."""
    plan = plan_devices(cluster(*pods(2), spec=spec_of(want(1, product_is("H100")))))
    assert {name for one in plan.machines for name in one.instance_types} == {"p5.48xlarge"}


def test_a_count_is_met_by_one_machine() -> None:
    """DRA-01: devices of one claim are on one node."""
    plan = plan_devices(cluster(*pods(1), spec=spec_of(want(4))))
    assert loads(plan) == [("g6.12xlarge", 1)]
    plan = plan_devices(cluster(*pods(1), spec=spec_of(want(9))))
    assert reason(plan).startswith(
        'resource claim template "default/gpus", request "gpu": asks for 9 devices of one node, which have at most 8'
    )


def test_the_first_available_alternative_is_preferred_and_the_next_one_taken() -> None:
    """DRA-01: alternatives in order of preference."""
    either = spec_of(
        want(1, product_is("H100"), name="gpu/best"), want(1, product_is("L4"), name="gpu/any")
    )
    assert loads(plan_devices(cluster(*pods(1), spec=either))) == [("p5.48xlarge", 1)]
    without = make_catalogue((L4, SMALL))
    plan = plan_devices(cluster(*pods(1), spec=either, catalogue=without))
    assert loads(plan) == [("g6.xlarge", 1)]


def test_a_second_alternative_may_take_another_number_of_devices() -> None:
    """DRA-01: one H100 or two L4, where H100 is sold out."""
    either = spec_of(
        want(1, product_is("H100"), name="gpu/one"), want(2, product_is("L4"), name="gpu/two")
    )
    gone = frozenset((o.capacity_type, H100.name, o.zone) for o in H100.offerings)
    plan = plan_devices(cluster(*pods(3), spec=either, unavailable=gone))
    assert loads(plan) == [("g6.12xlarge", 1), ("g6.12xlarge", 2)]


def test_overlapping_selectors_share_the_devices_of_a_machine() -> None:
    """DRA-01: any GPU and an H100 compete on the machine with H100."""
    specific = make_claim_template(spec_of(want(1, product_is("H100"))), "h100")
    plain = make_claim_template(spec_of(want()), "gpus")
    some = [claiming_pod(f"any-{at}") for at in range(5)]
    others = [claiming_pod(f"h100-{at}", "h100") for at in range(5)]
    only = make_catalogue((H100,))
    snapshot = cluster(*some, *others, claim_templates=(plain, specific), catalogue=only)
    assert loads(plan_devices(snapshot)) == [("p5.48xlarge", 2), ("p5.48xlarge", 8)]


def test_all_devices_of_a_node_are_one_claim() -> None:
    """DRA-01: allocationMode All leaves none to others."""
    plan = plan_devices(
        cluster(*pods(2), spec=spec_of(want(mode=ALL)), catalogue=make_catalogue((L4,)))
    )
    assert loads(plan) == [("g6.12xlarge", 1), ("g6.12xlarge", 1)]


@pytest.mark.parametrize("tolerated", [False, True])
def test_all_devices_of_a_node_are_not_all_without_a_tainted_one(tolerated: bool) -> None:
    """DRA-01: allocationMode All does not pass over a device, as kube-scheduler does not."""
    first, second = gpus(2)
    broken = replace(second, taints=(DeviceTaint("broken", "NoSchedule"),))
    template = make_device_template("l4", ("g6.12xlarge",), (first, broken))
    tolerations = (Toleration("broken", "Exists"),) if tolerated else ()
    for mode, placed in ((ALL, tolerated), (EXACT, True)):
        asked = spec_of(want(mode=mode, tolerations=tolerations))
        types = make_catalogue((L4,))
        plan = plan_devices(
            cluster(*pods(1), spec=asked, catalogue=types, device_templates=(template,))
        )
        assert bool(plan.machines) is placed
        assert placed or "asks for all devices of a node" in reason(plan)


def test_admin_access_takes_no_device() -> None:
    """DRA-01: monitoring looks at devices that others use."""
    plan = plan_devices(
        cluster(*pods(6), spec=spec_of(want(4, admin=True)), catalogue=make_catalogue((L4,)))
    )
    assert loads(plan) == [("g6.12xlarge", 6)]


def test_devices_on_one_pcie_root() -> None:
    """DRA-01: matchAttribute. Each GPU of a machine has a root of its own, so two cannot share one."""
    root = (Constraint(match="resource.kubernetes.io/pcieRoot"),)
    assert not plan_devices(
        cluster(*pods(1), spec=spec_of(want(1), constraints=root))
    ).unschedulable
    plan = plan_devices(cluster(*pods(1), spec=spec_of(want(2), constraints=root)))
    assert "no machine has the devices of all requests at once" in reason(plan)


def test_a_group_of_interfaces_and_a_gpu_is_counted_by_group() -> None:
    """DRA-01: one GPU and two of the eight interfaces beside it; a machine has two such pairs for each of four."""
    efa = make_catalogue(
        (gpu_type("p4d.24xlarge", "a100", 4, **{"vpc.amazonaws.com/efa": 8}),)
    ).types
    spec = spec_of(want(1), constraints=(Constraint(match="resource.kubernetes.io/pcieRoot"),))
    interface = want(2, name="efa", device_class="efa")
    spec = type(spec)((*spec.requests, Request("efa", (interface,))), spec.constraints)
    classes = (GPU_CLASS, type(GPU_CLASS)("efa", "efa", ('device.driver == "dra.net"',)))
    plan = plan_devices(
        cluster(*pods(5), spec=spec, catalogue=make_catalogue(efa), device_classes=classes)
    )
    assert loads(plan) == [("p4d.24xlarge", 1), ("p4d.24xlarge", 4)]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"device_classes": ()}, 'device class "gpu.nvidia.com" does not exist or cannot be read'),
        ({"claim_templates": ()}, 'resource claim template "default/gpus": does not exist'),
        (
            {"spec": spec_of(want(1, product_is("T4")))},
            "no instance type of the catalogue and no node",
        ),
        ({"spec": spec_of(want(1, "device.attributes["))}, "it is no CEL expression"),
        ({"spec": spec_of(want(1, "1 + 1"))}, "it must be true or false"),
        (
            {"spec": spec_of(want(1, f'device.attributes["{GPU}"].uuid == "x"'))},
            "a selector failed: no such key: uuid",
        ),
    ],
)
def test_a_claim_that_cannot_be_met_is_named_and_others_go_on(
    changes: dict[str, object], text: str
) -> None:
    """DRA-02."""
    plan = plan_devices(cluster(*pods(1), make_pod("other"), **changes))
    assert text in reason(plan)
    assert [one.pods for one in plan.machines] == [("uid-other",)]


def test_devices_of_a_node_that_claims_hold_are_not_free() -> None:
    """DRA-01: the node's slices without the allocations of claims."""
    node = make_node("node-1", "96", "512Gi")
    held = make_resource_claim(
        spec_of(want(3)), "held", **allocated("node-1", "gpu-0", "gpu-1", "gpu-2")
    )
    plan = plan_devices(
        cluster(
            *pods(2),
            nodes=(node,),
            resource_slices=(make_slice("node-1", gpus(4)),),
            resource_claims=(held,),
        )
    )
    assert [len(uids) for uids in plan.existing.values()] == [1]
    assert loads(plan) == [("g6.xlarge", 1)]


def test_a_pool_of_which_slices_are_missing_has_no_devices() -> None:
    """DRA-01: kube-scheduler allocates from complete pools of the newest generation."""
    node = make_node("node-1", "96", "512Gi")
    half = make_slice("node-1", gpus(4), pool_slices=2)
    plan = plan_devices(cluster(*pods(1), nodes=(node,), resource_slices=(half,)))
    assert not any(plan.existing.values())


@pytest.mark.parametrize(("age", "machines"), [(DRIVER_SECONDS - 1, 0), (DRIVER_SECONDS + 1, 1)])
def test_a_young_node_counts_with_the_devices_that_its_driver_will_publish(
    age: float, machines: int
) -> None:
    """DRA-01: between the node's being ready and its slices no second machine is bought, unless the driver is late."""
    node = make_node(
        "node-1",
        "96",
        "512Gi",
        created_at=1000.0,
        labels={
            keys.PROVISIONER_NAME: "default",
            keys.INSTANCE_TYPE: L4.name,
            keys.INITIALIZED: "true",
        },
    )
    plan = plan_devices(cluster(*pods(4), nodes=(node,)), now=1000.0 + age)
    assert bool(plan.machines) == bool(machines)


def test_a_launched_machine_counts_with_the_devices_of_its_type() -> None:
    """DRA-01: a machine without a node yet."""
    machine = make_machine(
        labels={keys.PROVISIONER_NAME: "default", keys.INSTANCE_TYPE: L4.name},
        allocatable={"cpu": 96_000, "memory": 512 * 1024**3, "pods": 100},
    )
    plan = plan_devices(cluster(*pods(5), machines=(machine,)))
    assert [len(uids) for uids in plan.existing.values()] == [4]
    assert loads(plan) == [("g6.xlarge", 1)]


def test_a_pod_that_a_plan_placed_before_takes_its_devices() -> None:
    """DRA-01: it is promised a machine, and kube-scheduler has not allocated its claim yet."""
    node = make_node("node-1", "96", "512Gi")
    promised = claiming_pod("promised", node_name="node-1", unschedulable=False)
    snapshot = cluster(
        promised, *pods(1), nodes=(node,), resource_slices=(make_slice("node-1", gpus(1)),)
    )
    assert loads(plan_devices(snapshot)) == [("g6.xlarge", 1)]


def test_an_allocated_claim_binds_its_pods_to_its_node() -> None:
    """DRA-03."""
    nodes = tuple(make_node(f"node-{at}", "96", "512Gi") for at in range(3))
    claim = make_resource_claim(spec_of(want()), **allocated("node-1", "gpu-0"))
    snapshot = cluster(sharing_pod(), nodes=nodes, resource_claims=(claim,))
    plan = plan_devices(snapshot)
    assert {name for name, uids in plan.existing.items() if uids} == {"node-1"}
    gone = plan_devices(cluster(sharing_pod(), resource_claims=(claim,)))
    assert 'its devices are on node "node-1", which is gone' in reason(gone)


def test_pods_that_share_a_claim_go_together_and_its_devices_count_once() -> None:
    """DRA-03."""
    shared = make_resource_claim(spec_of(want(4)))
    some = [sharing_pod(f"pod-{at}", cpu=f"{at + 1}") for at in range(3)]
    plan = plan_devices(cluster(*some, make_pod("other"), resource_claims=(shared,)))
    together = [one for one in plan.machines if len(one.pods) >= 3]
    assert loads(plan) == [("g6.12xlarge", 4)]
    assert {pod.uid for pod in some} <= set(together[0].pods)


def test_pods_that_share_a_claim_wait_together() -> None:
    """DRA-03: without a place for the devices none of them gets one."""
    shared = make_resource_claim(spec_of(want(8)))
    some = [sharing_pod(f"pod-{at}") for at in range(3)]
    plan = plan_devices(
        cluster(*some, resource_claims=(shared,), catalogue=make_catalogue((L4, SMALL)))
    )
    assert len(plan.unschedulable) == 3


def test_a_pod_that_moves_needs_its_devices_elsewhere() -> None:
    """POD-09, DRA-01: its claim is made anew with the pod."""
    node = make_node("node-1", "96", "512Gi")
    pod = make_bound_pod(
        "moving",
        "node-1",
        claims_devices=True,
        device_claims=claiming_pod().device_claims,
    )
    snapshot = cluster(pod, nodes=(node,))
    assert loads(plan_devices(snapshot, reschedule=frozenset({pod.uid}))) == [("g6.xlarge", 1)]


def test_a_template_describes_the_devices_of_instance_types() -> None:
    """DRA-04: DeviceTemplates replace what is built in, and describe other drivers."""
    described = make_device_template("mine", ("m5.x008",), gpus(2, "Special"))
    emptied = make_device_template("none", ("g6.xlarge",), ())
    plan = plan_devices(
        cluster(
            *pods(2), spec=spec_of(want(1, product_is("Special"))), device_templates=(described,)
        )
    )
    assert loads(plan) == [("m5.x008", 2)]
    plan = plan_devices(cluster(*pods(1), device_templates=(emptied,)))
    assert loads(plan) == [("g6.12xlarge", 1)]


def test_without_the_setting_claims_are_left_alone() -> None:
    """POD-08, IGNORE_DRA_REQUESTS=true."""
    plan = solve(cluster(*pods(1)), now=0.0, settings=SolverSettings())
    assert "dynamic resource allocation (DRA) is not supported" in reason(plan)


def test_lowest_cost_counts_devices_too() -> None:
    """DRA-01, PCK-01."""
    cheap = SolverSettings(ignore_device_claims=False, packing_policy="LowestCost")
    plan = plan_devices(cluster(*pods(9)), settings=cheap)
    counts = {"g6.12xlarge": 4, "p5.48xlarge": 8, "g6.xlarge": 1}
    assert sum(len(one.pods) for one in plan.machines) == 9
    assert all(len(m.pods) <= counts[name] for m in plan.machines for name in m.instance_types)
    assert plan.cost_micro_usd_per_hour <= 9 * 800_000


def test_claims_of_the_others_change_nothing_for_pods_without_any() -> None:
    """The plan of plain pods is the same, byte for byte, whether devices count or not."""
    plain = tuple(make_pod(f"plain-{at}") for at in range(20))
    one = solve(cluster(*plain), now=0.0, settings=COUNTING)
    other = solve(cluster(*plain), now=0.0, settings=SolverSettings())
    assert one == other
