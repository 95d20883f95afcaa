"""What is left to pods of a type, for any settings: the formulas of docs/spec/instance-types.md and what always holds.

The vectors of real types are in tests/shared/cloud/catalogue/test_instance_model.py.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.domain.instance_types.size_settings import (
    USUAL,
    WINDOWS_BUILDS,
    Amounts,
    SizeSettings,
    Threshold,
)
from shared.domain.instance_types.sizes import (
    adapted,
    effective,
    eni_limited_pods,
    kube_reserved_cpu_milli,
    sized,
)
from shared.domain.instance_types.types import (
    Catalogue,
    InstanceType,
    SizeFacts,
    decode_catalogue,
    encode_catalogue,
)
from tests.support.planning.builders import make_type

MIB, GIB = 1024**2, 1024**3
NAMES = ("cpu", "memory", "ephemeral-storage")
AMOUNTS = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 2**45)).map(
    lambda found: tuple(sorted(found.items()))
)
THRESHOLDS = st.none() | st.builds(
    Threshold, amount=st.integers(0, 2**45), percent=st.none() | st.floats(0, 100)
)
SETTINGS = st.builds(
    SizeSettings,
    platform=st.sampled_from(["linux", "al2023", "bottlerocket", *WINDOWS_BUILDS]),
    volume_bytes=st.integers(10**9, 64 * 2**40),
    instance_store=st.booleans(),
    max_pods=st.none() | st.integers(0, 1000),
    pods_per_core=st.integers(0, 50),
    efa_only_interfaces=st.integers(0, 4),
    enclaves=st.booleans(),
    kube_reserved=AMOUNTS,
    system_reserved=AMOUNTS,
    memory_eviction=THRESHOLDS,
    storage_eviction=THRESHOLDS,
)
FACTS = st.builds(
    SizeFacts,
    interfaces=st.integers(0, 60),
    pod_interfaces=st.none() | st.integers(0, 60),
    addresses_per_interface=st.integers(1, 50),
    instance_store_gb=st.integers(0, 60_000),
)
C7I = SizeFacts(interfaces=4, pod_interfaces=4, addresses_per_interface=15, instance_store_gb=0)
DESCRIBED = st.builds(
    lambda cpu, gib: make_type(cpu=cpu, gib=gib), st.integers(1, 448), st.integers(1, 24_576)
)
REAL = st.builds(lambda kind, facts: sized(kind, facts, USUAL), DESCRIBED, FACTS)
TYPES = REAL | DESCRIBED


def real_type(facts: SizeFacts = C7I) -> InstanceType:
    """2 vCPU and 8 GiB, with the usual settings."""
    return sized(make_type(), facts, USUAL)


@pytest.mark.parametrize(
    ("cores", "milli"), [(1, 60), (2, 70), (4, 80), (8, 90), (16, 110), (64, 230)]
)
def test_kube_reserved_cpu_goes_by_bands(cores: int, milli: int) -> None:
    """IT-30: CPU kept for the kubelet."""
    assert kube_reserved_cpu_milli(cores * 1000) == milli


@given(st.integers(1, 1000), st.integers(1, 1000))
def test_kube_reserved_cpu_grows_with_the_machine(fewer: int, more: int) -> None:
    small, large = sorted((fewer, more))
    assert kube_reserved_cpu_milli(small * 1000) <= kube_reserved_cpu_milli(large * 1000)


@pytest.mark.parametrize(
    ("interfaces", "addresses", "pods"),
    [(3, 6, 17), (3, 10, 29), (4, 15, 58), (8, 30, 234), (15, 50, 737), (0, 10, 0)],
)
def test_addresses_limit_pods(interfaces: int, addresses: int, pods: int) -> None:
    """IT-13: number of pods; IT-21: number of pods of known types."""
    assert eni_limited_pods(interfaces, addresses) == pods


@given(REAL)
def test_the_usual_settings_change_nothing(kind: InstanceType) -> None:
    """The catalogue's own amounts: pools that say nothing need no table of their own."""
    assert adapted(kind, USUAL) is kind
    assert kind.facts is not None
    assert sized(kind, kind.facts, USUAL) == kind


@given(TYPES, SETTINGS, SETTINGS)
def test_another_pool_s_sizes_leave_no_trace(
    kind: InstanceType, one: SizeSettings, other: SizeSettings
) -> None:
    before = encode_catalogue(Catalogue("us-west-2", "0", (kind,)))
    first = adapted(kind, one)
    adapted(kind, other)
    assert adapted(kind, one) == first
    assert encode_catalogue(Catalogue("us-west-2", "0", (kind,))) == before


@given(TYPES, SETTINGS)
def test_allocatable_is_never_negative_and_never_above_capacity(
    kind: InstanceType, settings: SizeSettings
) -> None:
    """IT-34: allocatable."""
    one = adapted(kind, settings)
    allocatable = one.allocatable()
    assert allocatable.keys() == one.capacity.keys()
    assert all(0 <= allocatable[name] <= one.capacity[name] for name in one.capacity)


@given(TYPES, SETTINGS)
def test_settings_change_neither_processors_nor_memory_nor_prices(
    kind: InstanceType, settings: SizeSettings
) -> None:
    one = adapted(kind, settings)
    assert (one.capacity["cpu"], one.capacity["memory"]) == (
        kind.capacity["cpu"],
        kind.capacity["memory"],
    )
    assert one.offerings == kind.offerings


def test_c7i_2xlarge_by_its_facts() -> None:
    """IT-35, ACC-42: 15155 MiB are left by the hypervisor."""
    described = replace(make_type(cpu=8), capacity={"cpu": 8000, "memory": 15155 * MIB})
    assert sized(described, C7I, USUAL).allocatable() == {
        "cpu": 7910,
        "memory": 14162 * MIB,
        "ephemeral-storage": 17 * GIB,
        "pods": 58,
    }


def more_of(amounts: Amounts, extra: Amounts) -> Amounts:
    """At least ``amounts`` of everything in them."""
    added = dict(extra)
    return tuple((name, amount + added.get(name, 0)) for name, amount in amounts)


@given(TYPES, SETTINGS, AMOUNTS)
def test_who_reserves_more_gets_less(
    kind: InstanceType, settings: SizeSettings, extra: Amounts
) -> None:
    """IT-34: allocatable."""
    more = replace(
        settings,
        kube_reserved=more_of(settings.kube_reserved, extra),
        system_reserved=more_of(settings.system_reserved, extra),
    )
    left, less = adapted(kind, settings).allocatable(), adapted(kind, more).allocatable()
    assert all(less[name] <= left[name] for name in left)


@given(TYPES, SETTINGS, st.floats(0, 100), st.floats(0, 100))
def test_a_higher_threshold_leaves_less(
    kind: InstanceType, settings: SizeSettings, one: float, other: float
) -> None:
    """IT-33: eviction threshold."""
    low, high = sorted((one, other))
    left, less = (
        adapted(
            kind,
            replace(
                settings,
                memory_eviction=Threshold(percent=share),
                storage_eviction=Threshold(percent=share),
            ),
        ).allocatable()
        for share in (low, high)
    )
    assert all(less[name] <= left[name] for name in left)


@given(REAL, SETTINGS, st.integers(0, 1000), st.integers(0, 1000))
def test_fewer_pods_never_cost_memory(
    kind: InstanceType, settings: SizeSettings, one: int, other: int
) -> None:
    """IT-31: with Amazon Linux the same is reserved for any number."""
    few, many = sorted((one, other))
    fewer = adapted(kind, replace(settings, max_pods=few))
    more = adapted(kind, replace(settings, max_pods=many))
    assert fewer.capacity["pods"] <= more.capacity["pods"]
    assert fewer.overhead["memory"] <= more.overhead["memory"]
    if settings.platform == "linux":
        assert fewer.overhead["memory"] == more.overhead["memory"]


@pytest.mark.parametrize(("percent", "taken"), [(5, 50_000_001), (0.1, 1_000_001), (0, 0)])
def test_a_percentage_is_rounded_up_to_whole_bytes(percent: float, taken: int) -> None:
    """IT-33: eviction threshold."""
    eviction = Threshold(percent=percent)
    settings = SizeSettings(volume_bytes=1_000_000_010, storage_eviction=eviction)
    assert adapted(real_type(), settings).overhead["ephemeral-storage"] == GIB + taken


def test_reserved_huge_pages_come_out_of_memory() -> None:
    """IT-19: huge pages."""
    reserved = adapted(real_type(), SizeSettings(system_reserved=(("hugepages-2Mi", 100 * MIB),)))
    assert reserved.overhead["memory"] - real_type().overhead["memory"] == 100 * MIB


def test_what_a_person_described_stays_but_for_the_number_of_pods() -> None:
    """Such a type knows no addresses and no disks; its amounts are those that were asked for."""
    described = make_type(cpu=2)
    described.capacity["ephemeral-storage"] = 100 * GIB
    settings = SizeSettings(instance_store=True, kube_reserved=(("cpu", 500),), max_pods=30)
    one = adapted(described, settings)
    assert one.capacity == {**described.capacity, "pods": 30}
    assert one.overhead == described.overhead
    assert adapted(described, SizeSettings(pods_per_core=4)).capacity["pods"] == 8


def test_a_catalogue_of_an_older_version_can_still_be_read() -> None:
    stored = (
        b'{"region": "us-west-2", "generation": "0", "types": [{"name": "m5.large", "labels": {},'
        b'"capacity": {"cpu": 2000, "memory": 8589934592, "pods": 29}, "overhead": {},'
        b'"offerings": []}]}'
    )
    kind = decode_catalogue(stored).types[0]
    assert kind.facts is None
    assert adapted(kind, SizeSettings(instance_store=True)).capacity["pods"] == 29


def test_windows_cannot_be_bought_for_arm64() -> None:
    """IT-14: pods of Windows nodes; IT-40: labels of Kubernetes."""
    arm64 = replace(real_type(), labels={"kubernetes.io/arch": ("arm64",)})
    windows = SizeSettings(platform="Windows2025")
    assert adapted(arm64, windows).offerings == ()
    one = adapted(real_type(), windows)
    assert one.offerings == real_type().offerings
    assert one.labels["kubernetes.io/os"] == ("windows",)
    assert one.labels["node.kubernetes.io/windows-build"] == ("10.0.26100",)


MEASURED = {"ami-1": 8_000_000_000, "ami-2": 7_900_000_000}


@pytest.mark.parametrize(
    ("images", "memory"),
    [
        ((), None),
        (("ami-9",), None),
        (("ami-1",), 8_000_000_000),
        (("ami-1", "ami-9"), 8_000_000_000),
        (("ami-1", "ami-2"), 7_900_000_000),
    ],
)
def test_what_nodes_of_an_image_reported_replaces_the_estimate(
    images: tuple[str, ...], memory: int | None
) -> None:
    """IT-12: of several images of a class the least counts, for any of them may boot."""
    kind = replace(real_type(), memory_by_image=MEASURED)
    found = adapted(kind, SizeSettings(images=images))
    assert found.capacity["memory"] == (memory or kind.capacity["memory"])
    assert found.allocatable()["memory"] == found.capacity["memory"] - kind.overhead["memory"]


def test_images_of_which_nothing_is_known_leave_the_settings_usual() -> None:
    """Pools with different images share one table of sizes as long as nothing tells them apart."""
    assert effective(SizeSettings(images=("ami-1",)), set(), first_graviton=True) == USUAL
    some = SizeSettings(images=("ami-1", "ami-2"))
    found = effective(some, {"ami-2", "ami-3"}, first_graviton=True)
    assert found == SizeSettings(images=("ami-2",))


@pytest.mark.parametrize(("name", "sold"), [("a1.large", False), ("m6g.large", True)])
def test_al2023_is_not_offered_on_the_first_graviton(name: str, sold: bool) -> None:
    """IT-02: it would never register. On any other type AL2023 is sized as usual."""
    kind = sized(make_type(name, labels={"kubernetes.io/arch": ("arm64",)}), C7I, USUAL)
    found = adapted(kind, SizeSettings(platform="al2023"))
    assert bool(found.offerings) == sold
    assert replace(found, offerings=kind.offerings) == kind


@pytest.mark.parametrize(("supported", "offered"), [(True, True), (None, True), (False, False)])
def test_a_class_with_enclaves_is_offered_no_type_that_has_none(
    supported: bool | None, offered: bool
) -> None:
    """EC-14: what is not known, as of a type written by hand, is left to EC2."""
    facts = SizeFacts(3, 3, 10, enclaves=supported)
    kind = sized(make_type(), facts, USUAL)
    assert bool(adapted(kind, SizeSettings(enclaves=True)).offerings) is offered
    assert adapted(kind, USUAL).offerings
