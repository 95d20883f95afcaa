"""CEL expressions in a class's kubelet settings: amounts by instance type (EC-11)."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.domain.instance_types.evaluation import expression_fault, value_of
from shared.domain.instance_types.expression_checks import (
    expressions_of,
    failing_expression,
    invalid_expressions,
)
from shared.domain.instance_types.expressions import Variables, parted, units_of
from shared.domain.instance_types.size_settings import USUAL, SizeSettings
from shared.domain.instance_types.sizes import adapted, reserved_texts, sized
from shared.domain.instance_types.types import InstanceType, SizeFacts
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.domain.pools.nodepools import NodeClass
from shared.errors import InvalidObject
from tests.support.planning.builders import make_node_class, make_type

MIB, GIB = 1024**2, 1024**3
LARGE = Variables("m5.large", 2, 8192, 3, 10, 29)
DESCRIBED: dict[str, tuple[str, ...]] = {"karpenter.k8s.aws/instance-memory": ("8192",)}


def real(name: str = "m5.large", cpu: int = 2, interfaces: int = 3, addresses: int = 10) -> Any:
    facts = SizeFacts(interfaces, interfaces, addresses)
    return sized(make_type(name, cpu, 8, labels=dict(DESCRIBED)), facts, USUAL)


def of_kubelet(kubelet: Mapping[str, object], **fields: Any) -> NodeClass:
    return make_node_class(generation_api=V1, kubelet=dict(kubelet), **fields)


def with_kubelet(kind: InstanceType, kubelet: Mapping[str, object], **fields: Any) -> InstanceType:
    """The type for a class with these settings."""
    return adapted(kind, SizeSettings.of_class(of_kubelet(kubelet, **fields)))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("((default_enis - 1) * (ips_per_eni - 1)) + 2", 20),
        ("min(250, ((default_enis - 1) * (ips_per_eni - 1)) * 16 + 2)", 250),
        ("min(110, max_pods)", 29),
        ("max(60, vcpus * 30)", 60),
        ("11 * max_pods + 255", 574),
        ("max(100, memory_mib / 64)", 128),
        ("double(vcpus) * 2.9", 5),
        ("max(1, 2.5)", 2),
        ("instance_type.startsWith('m5') ? 10 : 20", 10),
        ("instance_type in ['c5.large'] || vcpus > 1 ? 1 : 0", 1),
        ("7 % 4 + int(2.7)", 5),
    ],
)
def test_an_expression_yields_a_number_for_a_type(text: str, value: int) -> None:
    assert value_of("maxPods", text, LARGE) == value
    assert expression_fault(text) == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("vcpus +", "is no CEL expression"),
        ("much", "does not know much; use instance_type, vcpus"),
        ("[1, 2].map(x, x * 2).size()", "macros over lists"),
        ("uint(vcpus)", "cannot use uint"),
        ("1" + " + 1" * 400, "longer than 1024"),
    ],
)
def test_what_suits_no_type_is_said_without_one(text: str, words: str) -> None:
    assert words in expression_fault(text)
    (error,) = invalid_expressions(of_kubelet({"maxPods": text}))
    assert error.field == "spec.kubelet.maxPods"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("vcpus / (ips_per_eni - 10)", "divides by zero"),
        ("double(vcpus) / 0.0", "no finite number"),
        ("vcpus - 10", "yields -8, which is outside 0 to 2147483647"),
        ("vcpus * 9223372036854775807", "cannot be evaluated"),
        ("vcpus * 2147483647", "outside 0 to"),
        ("instance_type", "must yield a number"),
        ("vcpus > 1", "must yield a number"),
        ("vcpus * 2.5", "cannot be evaluated"),
        ("max(vcpus, true)", "cannot be evaluated"),
        ("max(1, 2, 3)", "cannot be evaluated"),
    ],
)
def test_what_fails_for_a_type_names_it_and_the_field(text: str, words: str) -> None:
    assert expression_fault(text) == ""
    with pytest.raises(InvalidObject, match=r"m5\.large") as raised:
        value_of("maxPods", text, LARGE)
    assert raised.value.field == "maxPods"
    assert words in raised.value.fault


@given(st.text(max_size=60) | st.sampled_from(["vcpus", "1/0", "{}", "a.b.c()", "'x'"]))
def test_any_text_is_a_number_or_a_fault(text: str) -> None:
    with contextlib.suppress(InvalidObject):
        assert value_of("maxPods", text, LARGE) >= 0


def test_max_pods_is_that_of_each_type() -> None:
    """Of maxPods the variable max_pods is the usual number, which podsPerCore limits as well."""
    formula: dict[str, object] = {"maxPods": "((default_enis - 1) * (ips_per_eni - 1)) + 2"}
    small, big = real(), real("m5.24xlarge", 96, 15, 50)
    assert with_kubelet(small, formula).capacity["pods"] == 20
    assert with_kubelet(big, formula).capacity["pods"] == 688
    assert with_kubelet(small, {"maxPods": "max_pods * 2"}).capacity["pods"] == 58
    halved: dict[str, object] = {"maxPods": "max_pods * 2", "podsPerCore": 8}
    assert with_kubelet(small, halved).capacity["pods"] == 16


def test_reservations_are_in_the_unit_of_their_resource_and_rounded_up() -> None:
    kubelet: dict[str, object] = {
        "maxPods": 50,
        "kubeReserved": {"cpu": "vcpus * 30 + 1", "memory": "11 * max_pods + 255"},
        "systemReserved": {"ephemeral-storage": "3", "memory": "100Mi", "pid": "vcpus * 1000"},
    }
    kind, settings = real(), SizeSettings.of_class(of_kubelet(kubelet))
    assert reserved_texts(kind, settings) == (
        ("kubeReserved", "cpu", "70m"),
        ("kubeReserved", "memory", "816Mi"),
        ("systemReserved", "pid", "2000"),
    )
    usual, changed = kind.overhead, adapted(kind, settings).overhead
    assert changed["cpu"] == 70
    assert changed["memory"] - usual["memory"] == (816 + 100 - (11 * 29 + 255)) * MIB
    assert changed["ephemeral-storage"] - usual["ephemeral-storage"] == 3, "a quantity: 3 bytes"


@given(st.integers(0, 2**31 - 1), st.sampled_from(["cpu", "memory", "ephemeral-storage", "pid"]))
def test_rounding_reserves_never_less_and_little_more(value: int, resource: str) -> None:
    step = {"cpu": 10, "memory": 16}.get(resource, 1)
    assert units_of(resource, value) == math.ceil(value / step) * step


def test_a_type_for_which_an_expression_fails_is_not_sold() -> None:
    kubelet: dict[str, object] = {"maxPods": "100 / (vcpus - 2)"}
    assert with_kubelet(real(), kubelet).offerings == ()
    four = real("m5.xlarge", 4)
    assert with_kubelet(four, kubelet).offerings == four.offerings
    failing = failing_expression(of_kubelet(kubelet), (four, real()))
    assert failing is not None
    assert failing.message == "spec.kubelet.maxPods: divides by zero (m5.large)"
    assert failing_expression(of_kubelet(kubelet), (four,)) is None


def test_a_type_that_somebody_described_keeps_its_amounts() -> None:
    kind = replace(real(), facts=None)
    changed = with_kubelet(kind, {"maxPods": "1", "kubeReserved": {"cpu": "500"}, "podsPerCore": 3})
    assert (changed.capacity["pods"], changed.overhead) == (6, kind.overhead)


def test_an_unknown_resource_is_named() -> None:
    """The schema knows the names; an object may be older than the schema."""
    failing = failing_expression(of_kubelet({"kubeReserved": {"gpu": "vcpus * 1"}}), (real(),))
    assert failing is not None
    assert "kubeReserved[gpu]: is unknown; use cpu, memory" in failing.message


def test_pools_with_equal_expressions_share_a_table_and_others_do_not() -> None:
    one, other = ({"maxPods": text} for text in ("max_pods", "max_pods + 1"))
    settings = [SizeSettings.of_class(of_kubelet(found)) for found in (one, one, other)]
    assert settings[0] == settings[1] != settings[2]
    assert len(set(settings)) == 2


def test_a_provisioner_has_no_expressions() -> None:
    old = make_node_class(generation_api=V1ALPHA5, kubelet={"maxPods": "vcpus"})
    assert expressions_of(old) == []


def test_settings_are_parted_from_their_expressions() -> None:
    plain, found = parted(
        {
            "maxPods": "vcpus",
            "kubeReserved": {"cpu": "100m", "memory": "vcpus * 1"},
            "podsPerCore": 2,
        }
    )
    assert plain == {"kubeReserved": {"cpu": "100m"}, "podsPerCore": 2}
    assert list(found.named()) == [("maxPods", "vcpus"), ("kubeReserved[memory]", "vcpus * 1")]
    assert not parted({"maxPods": 10, "kubeReserved": {"cpu": "100m"}, "systemReserved": None})[1]
