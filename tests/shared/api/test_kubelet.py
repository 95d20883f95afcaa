"""Settings of the kubelet, of a Provisioner and of an EC2NodeClass (P-20..P-23, EC-10, EC-11)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.cluster.crd.schemas import Validator
from shared.api.crd.model import ApiModel, read
from shared.api.crd.structural import structural_schema
from shared.api.schema.kubelet import (
    EVICTION_SIGNALS,
    FIXED_FIELDS,
    ProvisionerKubelet,
    kubelet_settings,
)
from shared.api.schema.v1.kubelet import NodeClassKubelet
from tests.shared.api.conftest import json_values, objects

BOTH = pytest.mark.parametrize("model", [ProvisionerKubelet, NodeClassKubelet])
EVERYTHING = {
    "clusterDNS": ["10.100.0.10", "fd00::a"],
    "maxPods": 20,
    "podsPerCore": 0,
    "systemReserved": {"cpu": "100m", "pid": "100"},
    "kubeReserved": {"memory": "1Gi", "ephemeral-storage": "3Gi"},
    "evictionHard": {"memory.available": "5%", "nodefs.available": "1Gi"},
    "evictionSoft": {"memory.available": "500Mi"},
    "evictionSoftGracePeriod": {"memory.available": "1m30s"},
    "evictionMaxPodGracePeriod": 60,
    "imageGCHighThresholdPercent": 85,
    "imageGCLowThresholdPercent": 80,
    "cpuCFSQuota": False,
}


def faults_of(model: type[ApiModel], raw: Any) -> list[str]:
    return [str(fault) for fault in read(model, raw)[1]]


@BOTH
def test_every_setting_is_kept_by_its_name(model: Any) -> None:
    """P-20: the odd capitals of clusterDNS, imageGC... and cpuCFSQuota are the API's."""
    found, faults = read(model, EVERYTHING)
    assert not faults
    assert kubelet_settings(found) == EVERYTHING
    assert EVERYTHING.keys() == FIXED_FIELDS


@BOTH
@pytest.mark.parametrize(
    ("name", "value", "path", "words"),
    [
        ("clusterDNS", ["10.0.0.256"], "clusterDNS[0]", "IP address"),
        ("clusterDNS", ["fe80::1%$(reboot)"], "clusterDNS[0]", "scope"),
        ("maxPods", -1, "maxPods", "at least 0"),
        ("maxPods", True, "maxPods", "whole number"),
        ("maxPods", 10**18, "maxPods", "at most"),
        ("systemReserved", {"cpu": "-1"}, "systemReserved.cpu", "negative"),
        ("systemReserved", {"gpu": "1"}, "systemReserved.gpu", "use one of cpu, memory"),
        ("evictionHard", {"disk": "5%"}, "evictionHard.disk", "memory.available"),
        ("evictionHard", {"pid.available": "101%"}, "evictionHard[pid.available]", "5% or 100Mi"),
        ("evictionHard", {"pid.available": "5%\n"}, "evictionHard[pid.available]", "5% or 100Mi"),
        ("evictionHard", {"pid.available": "-1Gi"}, "evictionHard[pid.available]", "5% or 100Mi"),
        ("imageGCHighThresholdPercent", 101, "imageGCHighThresholdPercent", "at most 100"),
        ("cpuCFSQuota", "no", "cpuCFSQuota", "true or false"),
    ],
)
def test_a_fault_names_the_setting_and_says_how_to_mend_it(
    model: Any, name: str, value: Any, path: str, words: str
) -> None:
    """P-20..P-22: kubelet settings of a Provisioner and a node class."""
    (fault,) = faults_of(model, {name: value})
    assert fault.startswith(f"{path}: ")
    assert words in fault


EXPRESSIONS = [
    ("maxPods", "min(110, max_pods)", "maxPods", "whole number"),
    ("kubeReserved", {"cpu": "max(60, vcpus * 30)"}, "kubeReserved.cpu", "quantity"),
    ("systemReserved", {"memory": "memory_mib / 64"}, "systemReserved.memory", "quantity"),
]


@pytest.mark.parametrize(("name", "value", "path", "words"), EXPRESSIONS)
def test_only_a_node_class_may_have_expressions(
    name: str, value: Any, path: str, words: str
) -> None:
    """EC-11: amounts by instance type."""
    (fault,) = faults_of(ProvisionerKubelet, {name: value})
    assert fault.startswith(f"{path}: ")
    assert words in fault
    assert kubelet_settings(read(NodeClassKubelet, {name: value})[0]) == {name: value}


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("maxPods", "", "minus sign"),
        ("maxPods", "-max_pods", "minus sign"),
        ("maxPods", "1 + " * 300 + "1", "more than 1024 characters"),
        ("maxPods", 1.5, "whole number, or a CEL expression"),
        ("kubeReserved", {"cpu": "-1 * vcpus"}, "minus sign"),
        ("kubeReserved", {"cpu": ["1"]}, "quantity"),
    ],
)
def test_what_is_no_expression_either_is_refused(name: str, value: Any, words: str) -> None:
    (fault,) = faults_of(NodeClassKubelet, {name: value})
    assert words in fault


@BOTH
def test_a_soft_threshold_needs_a_grace_period_and_a_grace_period_a_threshold(model: Any) -> None:
    """P-23: evictions that are soft need a grace period."""
    raw = {
        "evictionSoft": {"memory.available": "5%"},
        "evictionSoftGracePeriod": {"pid.available": "1m"},
    }
    assert faults_of(model, raw) == [
        "evictionSoftGracePeriod[pid.available]: needs an entry of the same name in evictionSoft",
        "evictionSoft[memory.available]: needs an entry of the same name in evictionSoftGracePeriod",
    ]


@BOTH
@pytest.mark.parametrize(
    ("high", "low", "allowed"), [(85, 80, True), (80, 80, True), (79, 80, False)]
)
def test_images_are_not_removed_below_where_removal_ends(
    model: Any, high: int, low: int, allowed: bool
) -> None:
    """P-23: evictions that are soft need a grace period."""
    raw = {"imageGCHighThresholdPercent": high, "imageGCLowThresholdPercent": low}
    assert (not faults_of(model, raw)) is allowed


def test_all_faults_are_told_at_once() -> None:
    raw = {"maxPods": -1, "clusterDNS": ["x"], "evictionHard": {"disk": "no"}}
    assert len(faults_of(ProvisionerKubelet, raw)) == 4


def test_a_map_of_ten_thousand_entries_is_one_fault() -> None:
    raw = {"evictionHard": {f"signal-{index}": "5%" for index in range(10_000)}}
    assert faults_of(NodeClassKubelet, raw) == ["evictionHard: has more than 6 entries"]


def test_reserved_amounts_become_text_as_the_kubelet_wants_them() -> None:
    found, _ = read(NodeClassKubelet, {"kubeReserved": {"cpu": 1, "memory": "1Gi"}})
    assert kubelet_settings(found) == {"kubeReserved": {"cpu": "1", "memory": "1Gi"}}


def test_nothing_written_is_no_setting() -> None:
    assert kubelet_settings(None) == {}
    assert kubelet_settings(read(NodeClassKubelet, {"maxPods": None})[0]) == {}


@pytest.mark.parametrize(
    ("runtime", "allowed"), [("dockerd", True), ("containerd", True), ("cri-o", False)]
)
def test_only_a_provisioner_knows_two_container_runtimes(runtime: str, allowed: bool) -> None:
    """P-20: kubelet configuration."""
    found, _ = read(ProvisionerKubelet, {"containerRuntime": runtime})
    assert (found is not None) is allowed


def test_a_class_keeps_settings_that_nobody_here_knows() -> None:
    """EC-10: kubelet settings."""
    raw = {"maxPods": 3, "cpuManagerPolicy": "static", "featureGates": {"A": True, "B": None}}
    found, faults = read(NodeClassKubelet, raw)
    assert not faults
    assert kubelet_settings(found) == raw


def test_taints_do_not_belong_to_the_kubelet() -> None:
    """EC-10: kubelet settings."""
    (fault,) = faults_of(NodeClassKubelet, {"registerWithTaints": []})
    assert fault.startswith("registerWithTaints: ")
    assert "NodePool" in fault


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), 10**30, "\ud800", {"\ud800": 1}, {1: 2}, object()],
    ids=["nan", "inf", "10**30", "surrogate", "surrogate key", "number key", "no JSON"],
)
def test_an_unknown_setting_must_be_json(value: Any) -> None:
    (fault,) = faults_of(NodeClassKubelet, {"other": [value]})
    assert fault.startswith("other: ")


def test_unknown_settings_are_bounded() -> None:
    """No boot data has more than 16 KiB."""
    assert faults_of(NodeClassKubelet, {"other": "x" * 2**20})
    assert faults_of(NodeClassKubelet, {f"other-{index}": 1 for index in range(10_000)})
    assert faults_of(NodeClassKubelet, {"other": [[]] * 20_000})
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    assert faults_of(NodeClassKubelet, {"other": deep}) == ["other: is nested too deeply"]


@pytest.mark.slow
@given(objects(*FIXED_FIELDS, "registerWithTaints", "other", *EVICTION_SIGNALS))
def test_no_kubelet_object_breaks_the_reading(raw: dict[str, Any]) -> None:
    for model in (ProvisionerKubelet, NodeClassKubelet):
        found, faults = read(model, raw)
        assert (found is None) == bool(faults)
        assert all(str(fault) for fault in faults)


@given(st.dictionaries(st.text(max_size=5), json_values("a"), max_size=4))
def test_unknown_settings_come_back_as_they_were(raw: dict[str, Any]) -> None:
    found, faults = read(NodeClassKubelet, raw)
    if found is not None:
        settings = kubelet_settings(found)
        assert settings == {key: value for key, value in raw.items() if value is not None}
        assert json.loads(json.dumps(settings)) == settings
    else:
        assert faults


@BOTH
@pytest.mark.parametrize(
    ("raw", "allowed"),
    [
        (EVERYTHING, True),
        ({"evictionHard": {"disk": "5%"}}, False),
        ({"evictionSoft": {"pid.available": "5%"}}, False),
        ({"evictionSoftGracePeriod": {"pid.available": "5m"}}, False),
        ({"kubeReserved": {"gpu": "1"}}, False),
        ({"imageGCHighThresholdPercent": 1, "imageGCLowThresholdPercent": 2}, False),
    ],
)
def test_the_api_server_says_the_same(model: Any, raw: Any, allowed: bool) -> None:
    """The CEL of a rule means what its function means."""
    schema = {"type": "object", "properties": {"spec": structural_schema(model)}}
    errors = Validator(schema).errors({"metadata": {"name": "one"}, "spec": raw})
    assert (not errors) is allowed
    assert (not faults_of(model, raw)) is allowed
