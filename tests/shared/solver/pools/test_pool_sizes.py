"""Each pool plans with the sizes that its own settings leave to pods (P-20, EC-10, EC-12, IT-13..16, IT-30..34)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.instance_types.size_settings import USUAL, SizeSettings
from shared.domain.instance_types.sizes import sized
from shared.domain.instance_types.types import Catalogue, InstanceType, SizeFacts
from shared.domain.pools.generations import V1
from shared.domain.requirements import Requirements
from shared.domain.resources import add, fits
from shared.solver.encode import MOST_KEPT, ResourceAxis, TypeTable
from shared.solver.plan import Plan
from tests.support.planning.builders import (
    make_catalogue,
    make_daemon_set,
    make_machine,
    make_node_class,
    make_pod,
    make_pods,
    make_pool,
    make_snapshot,
    make_type,
    make_types,
)
from tests.support.planning.snapshots import plan_for, pods_per_machine

GIB = 1024**3


def real(name: str = "m5.large", cpu: int = 2, **facts: Any) -> InstanceType:
    """A type as EC2 describes it: three interfaces with ten addresses each."""
    network: dict[str, Any] = {"interfaces": 3, "pod_interfaces": 3, "addresses_per_interface": 10}
    known = SizeFacts(**{"instance_store_gb": 0, **network, **facts})
    return sized(make_type(name, cpu, cpu * 4, cpu * 48_000), known, USUAL)


ONLY = make_catalogue((real(),))


def described(catalogue: Catalogue = ONLY, **changes: Any) -> dict[str, Any]:
    return {"catalogue": catalogue, **changes}


def unplaced(plan: Plan) -> str:
    """The reason, of the only pod that has no place."""
    (reason,) = plan.unschedulable.values()
    return reason


def test_max_pods_of_a_provisioner_limits_its_machines() -> None:
    """P-20: kubelet configuration; IT-13: number of pods."""
    pods = make_pods(10, cpu="10m", memory="16Mi")
    usual = plan_for(make_snapshot(*pods, **described()))
    small = make_pool(kubelet={"maxPods": 4})
    assert pods_per_machine(usual) == [10]
    assert pods_per_machine(plan_for(make_snapshot(*pods, **described(pools=(small,))))) == [
        4, 4, 2,
    ]  # fmt: skip


def test_more_pods_than_addresses_when_the_pool_says_so() -> None:
    """IT-13: 29 addresses; a pool with prefix delegation raises maxPods."""
    pods = make_pods(40, cpu="10m", memory="16Mi")
    many = make_pool(kubelet={"maxPods": 110})
    assert pods_per_machine(plan_for(make_snapshot(*pods, **described()))) == [29, 11]
    assert pods_per_machine(plan_for(make_snapshot(*pods, **described(pools=(many,))))) == [40]


def test_pods_per_core_limits_small_machines() -> None:
    """IT-13: number of pods."""
    pool = make_pool(kubelet={"podsPerCore": 3})
    plan = plan_for(make_snapshot(*make_pods(8, cpu="10m"), **described(pools=(pool,))))
    assert pods_per_machine(plan) == [6, 2]


@pytest.mark.parametrize(
    "kubelet",
    [
        {"kubeReserved": {"cpu": "1100m"}},
        {"systemReserved": {"cpu": "1100m"}},
        {"evictionHard": {"memory.available": "80%"}},
        {"kubeReserved": {"memory": "7Gi"}},
    ],
)
def test_what_a_class_reserves_is_not_there_for_pods(kubelet: dict[str, object]) -> None:
    """EC-10, IT-32..IT-34: what the kubelet keeps."""
    pod = make_pod(cpu="1", memory="2Gi")
    v1 = make_pool(generation_api=V1)

    def plan(**node_class: Any) -> Plan:
        found = make_node_class(generation_api=V1, **node_class)
        return plan_for(make_snapshot(pod, **described(pools=(v1,), node_classes=(found,))))

    assert pods_per_machine(plan()) == [1]
    assert "has enough resources" in unplaced(plan(kubelet=kubelet))


def test_ephemeral_storage_is_that_of_the_class() -> None:
    """IT-15, EC-12: 17 GiB of the usual volume, 89 GiB of one with 100."""
    pod = make_pod(requests={"cpu": 100, "pods": 1, "ephemeral-storage": 80 * GIB})
    mapping = {"deviceName": "/dev/xvda", "rootVolume": True, "ebs": {"volumeSize": "100Gi"}}
    large = make_node_class(block_device_mappings=(mapping,))
    assert unplaced(plan_for(make_snapshot(pod, **described())))
    plan = plan_for(make_snapshot(pod, **described(node_classes=(large,))))
    assert pods_per_machine(plan) == [1]


def test_raid0_needs_a_type_with_disks() -> None:
    """IT-15: 900 GB of instance store; without RAID0 they are no place for pods."""
    pod = make_pod(requests={"cpu": 100, "pods": 1, "ephemeral-storage": 500 * GIB})
    catalogue = make_catalogue((real(), real("m5d.large", instance_store_gb=900)))
    raid0 = make_node_class(instance_store_policy="RAID0")
    assert unplaced(plan_for(make_snapshot(pod, **described(catalogue))))
    (machine,) = plan_for(
        make_snapshot(pod, **described(catalogue, node_classes=(raid0,)))
    ).machines
    assert machine.instance_types == ("m5d.large",)


def test_pools_side_by_side_have_their_own_sizes() -> None:
    """NP-22: the preferred pool's machines are full with two pods, the rest goes on there."""
    pools = (make_pool("few", weight=10, kubelet={"maxPods": 2}), make_pool("many"))
    pods = make_pods(3, cpu="20m")
    picky = make_pods(3, "other", cpu="10m", node_selector={keys.PROVISIONER_NAME: "many"})
    plan = plan_for(make_snapshot(*pods, *picky, **described(pools=pools)))
    assert sorted((m.pool, len(m.pods)) for m in plan.machines) == [
        ("few", 1), ("few", 2), ("many", 3),
    ]  # fmt: skip


def test_a_wrong_setting_stops_its_pool_only() -> None:
    broken = make_pool("broken", weight=10, kubelet={"kubeReserved": {"cpu": "much"}})
    fine = make_pool("fine")
    plan = plan_for(make_snapshot(make_pod(), **described(pools=(broken, fine))))
    assert [machine.pool for machine in plan.machines] == ["fine"]
    alone = plan_for(make_snapshot(make_pod(), **described(pools=(broken,))))
    assert "spec.kubeletConfiguration.kubeReserved.cpu" in unplaced(alone)


def test_a_machine_on_its_way_has_the_size_of_its_own_settings() -> None:
    """Before launch the machine's status has no sizes (SCH-51)."""
    machine = make_machine(
        requirements=(Expression(keys.INSTANCE_TYPE, "In", ("m5.large",)),),
        node_class="default",
        kubelet={"maxPods": 2},
    )
    pool = make_pool(kubelet={"maxPods": 2})
    pods = make_pods(3, cpu="10m")
    plan = plan_for(make_snapshot(*pods, **described(pools=(pool,), machines=(machine,))))
    assert len(plan.existing[machine.name]) == 2
    assert pods_per_machine(plan) == [1]


def test_a_nodeclaim_on_its_way_has_the_size_of_its_class() -> None:
    """EC-10: kubelet settings."""
    machine = make_machine(
        requirements=(Expression(keys.INSTANCE_TYPE, "In", ("m5.large",)),),
        labels={keys.NODE_POOL: "default"},
        generation_api=V1,
        node_class="default",
    )
    node_class = make_node_class(generation_api=V1, kubelet={"maxPods": 2})
    pool = make_pool(generation_api=V1)
    changes = described(pools=(pool,), node_classes=(node_class,), machines=(machine,))
    plan = plan_for(make_snapshot(*make_pods(3, cpu="10m"), **changes))
    assert len(plan.existing[machine.name]) == 2


def test_a_machine_whose_kubelet_cannot_be_read_is_not_counted_on() -> None:
    machine = make_machine(
        requirements=(Expression(keys.INSTANCE_TYPE, "In", ("m5.large",)),),
        node_class="default",
        kubelet={"maxPods": "ten"},
    )
    plan = plan_for(make_snapshot(make_pod(), **described(machines=(machine,))))
    assert plan.existing == {}
    assert pods_per_machine(plan) == [1]


def test_limits_count_the_pool_s_own_sizes() -> None:
    """A machine of this pool counts with a capacity of five pods (SCH-100, SCH-101)."""
    pool = make_pool(kubelet={"maxPods": 5}, limits={"pods": 10})
    plan = plan_for(make_snapshot(*make_pods(15, cpu="10m"), **described(pools=(pool,))))
    assert pods_per_machine(plan) == [5, 5]
    assert len(plan.unschedulable) == 5


def test_daemons_take_of_the_adapted_pods() -> None:
    """SCH-46: daemons of new nodes."""
    pool = make_pool(kubelet={"maxPods": 3})
    changes = described(pools=(pool,), daemon_sets=(make_daemon_set(),))
    assert pods_per_machine(plan_for(make_snapshot(*make_pods(4, cpu="10m"), **changes))) == [2, 2]


def test_a_pod_can_ask_for_machines_by_their_number_of_pods() -> None:
    """The label has the number of pods of the pool's machines (IT-45)."""
    asking = (Expression(keys.AWS_PREFIX + "instance-pods", "Gt", ("50",)),)
    pod = make_pod(required_terms=(asking,))
    roomy = make_pool(kubelet={"maxPods": 60})
    assert unplaced(plan_for(make_snapshot(pod, **described())))
    assert pods_per_machine(plan_for(make_snapshot(pod, **described(pools=(roomy,))))) == [1]


def test_windows_pools_find_windows_machines() -> None:
    """IT-14: pods of Windows nodes; IT-40: labels of Kubernetes."""
    windows = (Expression(keys.OS, "In", ("windows",)),)
    pool = make_pool(generation_api=V1, requirements=windows)
    node_class = make_node_class(generation_api=V1, ami_family="Windows2022")
    pod = make_pod(node_selector={keys.OS: "windows", keys.WINDOWS_BUILD: "10.0.20348"})
    changes = described(pools=(pool,), node_classes=(node_class,))
    (machine,) = plan_for(make_snapshot(pod, **changes)).machines
    assert machine.labels[keys.OS] == "windows"
    assert unplaced(plan_for(make_snapshot(pod, **described())))


def test_equal_settings_share_one_table() -> None:
    """Default settings share the common table."""
    table = TypeTable(ONLY, ResourceAxis([]), frozenset())
    few = SizeSettings(max_pods=5)
    assert table.sized(USUAL) is table
    assert table.sized(few) is table.sized(SizeSettings(max_pods=5))
    assert table.sized(few).sized(USUAL) is table
    assert table.sized(few).sized(SizeSettings(max_pods=6)) is table.sized(SizeSettings(max_pods=6))


def test_plans_of_one_catalogue_share_a_table() -> None:
    """Other offerings or resources make it another one."""
    first = TypeTable.of(ONLY, ResourceAxis([]), frozenset())
    assert TypeTable.of(ONLY, ResourceAxis([]), frozenset()) is first
    assert first.sized(USUAL) is first
    name = ONLY.types[0].name
    offering = ONLY.types[0].offerings[0]
    sold_out = frozenset({(offering.capacity_type, name, offering.zone)})
    without = TypeTable.of(ONLY, ResourceAxis([]), sold_out)
    assert without.available.sum() == first.available.sum() - 1
    assert (
        TypeTable.of(ONLY, ResourceAxis([{"gpu": 1}]), frozenset()).axis.names != first.axis.names
    )


def test_what_a_table_keeps_is_bounded() -> None:
    """A plan that began before goes on with what it has."""
    first = TypeTable.of(ONLY, ResourceAxis([]), frozenset())
    before = first.matching(Requirements.of(labels={keys.ARCH: "amd64"}))
    for number in range(MOST_KEPT):
        first.matching(Requirements.of(labels={"team": f"team-{number}"}))
    again = TypeTable.of(ONLY, ResourceAxis([]), frozenset())
    assert again is first
    kept = again.matching(Requirements.of(labels={keys.ARCH: "amd64"}))
    assert kept is not before
    assert (kept == before).all()


def test_pools_that_say_nothing_plan_as_before() -> None:
    """AL2023 with its default root volume equals the defaults."""
    mapping = {"deviceName": "/dev/xvda", "rootVolume": True, "ebs": {"volumeSize": "20Gi"}}
    usual = make_node_class(ami_family="AL2023", block_device_mappings=(mapping,))
    pods = make_pods(7, cpu="700m")
    catalogue = make_catalogue(make_types())
    silent = plan_for(make_snapshot(*pods, catalogue=catalogue))
    assert plan_for(make_snapshot(*pods, catalogue=catalogue, node_classes=(usual,))) == silent


@given(
    st.integers(1, 40),
    st.integers(0, 1500),
    st.lists(st.integers(10, 1900), min_size=1, max_size=8),
)
def test_no_machine_gets_more_than_its_settings_leave(
    most: int, reserved: int, cpus: list[int]
) -> None:
    pods = tuple(make_pod(f"p{i}", cpu=f"{cpu}m") for i, cpu in enumerate(cpus))
    kubelet = {"maxPods": most, "kubeReserved": {"cpu": f"{reserved}m"}}
    catalogue = make_catalogue((real(), real("m5.xlarge", 4)))
    plan = plan_for(
        make_snapshot(*pods, **described(catalogue, pools=(make_pool(kubelet=kubelet),)))
    )
    requests = {pod.uid: pod.requests for pod in pods}
    for machine in plan.machines:
        wanted = add(*(requests[uid] for uid in machine.pods))
        for name in machine.instance_types:
            cores = {"m5.large": 2, "m5.xlarge": 4}[name]
            assert fits(
                {"cpu": wanted["cpu"], "pods": len(machine.pods)},
                {"cpu": cores * 1000 - reserved, "pods": most},
            )


def test_a_class_is_planned_with_the_memory_that_its_image_really_leaves() -> None:
    """IT-12: 7 GiB do not fit beside what is reserved of 7.3 GiB; nobody measured the other image."""
    measured = replace(real(), memory_by_image={"ami-1": 73 * GIB // 10})
    pods = make_pods(1, cpu="100m", memory="7Gi")

    def plan(image: str) -> Plan:
        classes = (make_node_class(image_ids=(image,)),)
        return plan_for(
            make_snapshot(*pods, catalogue=make_catalogue((measured,)), node_classes=classes)
        )

    assert pods_per_machine(plan("ami-2")) == [1]
    assert not plan("ami-1").machines


def test_pools_whose_images_nobody_measured_share_one_table() -> None:
    """IT-12: else every class would have its own, for the same sizes."""
    table = TypeTable(ONLY, ResourceAxis([]), frozenset())
    assert table.sized(SizeSettings(images=("ami-1",))) is table


@pytest.mark.parametrize(("family", "chosen"), [("AL2", "a1.large"), ("AL2023", "m6g.large")])
def test_al2023_is_not_planned_on_the_first_graviton(family: str, chosen: str) -> None:
    """IT-02: a1 is the cheapest arm64 type, and AL2023 does not start there."""
    types = tuple(
        make_type(name, price=price, labels={keys.ARCH: ("arm64",)})
        for name, price in (("a1.large", 51_000), ("m6g.large", 77_000))
    )
    pool = make_pool(requirements=(Expression(keys.ARCH, "In", ("arm64",)),))
    plan = plan_for(
        make_snapshot(
            make_pod("one", cpu="1"),
            pools=(pool,),
            catalogue=make_catalogue(types),
            node_classes=(make_node_class(ami_family=family),),
        )
    )
    (machine,) = plan.machines
    assert machine.instance_types[0] == chosen
