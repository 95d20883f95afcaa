"""The ConfigMap by which Karpenter up to v0.31 is set up (OPS-04)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.api.faults import field_text
from shared.api.v1alpha5.global_settings import GlobalSettings, parse_global_settings
from shared.settings import (
    InterruptionSettings,
    LauncherSettings,
    SchedulerSettings,
    TerminatorSettings,
)

ROLE = "arn:aws:iam::123456789012:role/nodes"
EVERYTHING = {
    "batchMaxDuration": "10s",
    "batchIdleDuration": "1.5s",
    "aws.assumeRoleARN": ROLE,
    "aws.assumeRoleDuration": "15m",
    "aws.clusterCABundle": "Y2E=",
    "aws.clusterName": "prod",
    "aws.clusterEndpoint": "https://example.eks.amazonaws.com",
    "aws.defaultInstanceProfile": "nodes",
    "aws.enablePodENI": "true",
    "aws.enableENILimitedPodDensity": "false",
    "aws.isolatedVPC": "False",
    "aws.vmMemoryOverheadPercent": "0.1",
    "aws.interruptionQueueName": "prod-queue",
    "aws.tags": '{"team": "web"}',
    "aws.reservedENIs": "1",
    "featureGates.driftEnabled": "true",
}


def settings_of(data: object) -> GlobalSettings:
    return parse_global_settings({"data": data}).require("ConfigMap")


def fault(key: str, text: object) -> str:
    """What is said about this one key."""
    (found,) = parse_global_settings({"data": {key: text}}).faults
    assert found.path == ("data", key)
    return found.message


def test_every_key_of_karpenter_is_read() -> None:
    assert settings_of(EVERYTHING) == GlobalSettings(
        batch_max_duration=10.0,
        batch_idle_duration=1.5,
        assume_role_arn=ROLE,
        assume_role_duration=900.0,
        cluster_ca_bundle="Y2E=",
        cluster_name="prod",
        cluster_endpoint="https://example.eks.amazonaws.com",
        default_instance_profile="nodes",
        enable_pod_eni=True,
        enable_eni_limited_pod_density=False,
        isolated_vpc=False,
        vm_memory_overhead_percent=0.1,
        interruption_queue="prod-queue",
        aws_tags={"team": "web"},
        reserved_enis=1,
        feature_gates="Drift=true",
    )


def test_every_key_is_a_setting_of_some_service() -> None:
    kinds = (SchedulerSettings, LauncherSettings, TerminatorSettings, InterruptionSettings)
    known = {name for kind in kinds for name in kind.model_fields}
    assert settings_of(EVERYTHING).present().keys() <= known
    assert len(settings_of(EVERYTHING).present()) == len(EVERYTHING)


@pytest.mark.parametrize(
    ("key", "text"), [("disruption", "off"), ("disruption", "on"), ("consolidation", "Global")]
)
def test_the_switches_of_disruption_are_our_own_keys(key: str, text: str) -> None:
    """The kill switch, and how pools are consolidated that do not say."""
    read = parse_global_settings({"data": {key: text}})
    assert read.record is not None
    assert read.record.present() == {key: text}


def test_what_is_empty_or_missing_says_nothing() -> None:
    """Charts write every key, most of them empty."""
    assert settings_of(dict.fromkeys(EVERYTHING, "")) == GlobalSettings()
    assert settings_of(None) == GlobalSettings()
    assert parse_global_settings({}).record == GlobalSettings()
    assert GlobalSettings().present() == {}


def test_an_unknown_key_is_a_note_and_the_rest_counts() -> None:
    settings = settings_of({"aws.defaultInstanceType": "m5.large", "batchMaxDuration": "5s"})
    assert settings.batch_max_duration == 5.0
    assert [note.path for note in settings.notes] == [("data", "aws.defaultInstanceType")]


def test_all_faults_are_told_at_once_and_nothing_counts() -> None:
    parsed = parse_global_settings(
        {"data": {"batchMaxDuration": "soon", "aws.tags": "no", "aws.clusterName": "prod"}}
    )
    assert parsed.record is None
    said = [field_text(fault.path) for fault in parsed.faults]
    assert said == ["data[aws.tags]", "data.batchMaxDuration"]


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("batchIdleDuration", "10", "'10' is not a duration such as 10s, 1.5s"),
        ("batchIdleDuration", "-1s", "is not a duration"),
        ("batchMaxDuration", "9999h", "must be from 0s to 2592000s"),
        ("batchMaxDuration", "9" * 60 + "h", "must be from 0s"),
        ("aws.assumeRoleDuration", "1m", "must be from 900s to 43200s"),
        ("aws.assumeRoleARN", "nodes", "is not a role ARN such as arn:aws:iam"),
        ("aws.clusterEndpoint", "example.com", "is not a URL such as https://"),
        ("aws.clusterEndpoint", "https://[", "is not a URL"),
        ("aws.clusterName", "x" * 101, "more than 100 characters"),
        ("aws.enablePodENI", "yes", 'must be "true" or "false"'),
        ("aws.isolatedVPC", True, "must be a string; put it in quotes"),
        ("aws.vmMemoryOverheadPercent", "7.5", "from 0 to less than 1"),
        ("aws.vmMemoryOverheadPercent", "nan", "from 0 to less than 1"),
        ("aws.vmMemoryOverheadPercent", "-0.1", "from 0 to less than 1"),
        ("aws.reservedENIs", "-1", "whole number"),
        ("aws.reservedENIs", "1.5", "whole number"),
        ("aws.tags", '{"kubernetes.io/cluster/x": "owned"}', "choose another key"),
        ("featureGates.driftEnabled", "on", 'must be "true" or "false"'),
        ("disruption", "stop", "must be on or off"),
        ("disruption", False, "must be a string; put it in quotes"),
        ("consolidation", "none", "must be Karpenter or Global"),
    ],
)
def test_a_fault_says_how_to_mend_it(key: str, text: object, message: str) -> None:
    assert message in fault(key, text)


def test_a_long_text_is_not_repeated_in_full() -> None:
    assert len(fault("batchMaxDuration", "x" * 1_000_000)) < 200


@pytest.mark.parametrize("data", [[], "text", 7, float("nan"), True])
def test_data_that_is_no_object_is_a_fault(data: object) -> None:
    (found,) = parse_global_settings({"data": data}).faults
    assert field_text(found.path) == "data"


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(list(EVERYTHING)) | st.text() | st.integers(), anything))
def test_no_data_breaks_the_reader(data: dict[Any, Any]) -> None:
    """F27: faulty objects."""
    parsed = parse_global_settings({"data": data})
    assert (parsed.record is None) == bool(parsed.faults)


@given(anything)
def test_no_object_breaks_the_reader(raw: Any) -> None:
    parsed = parse_global_settings(raw)
    assert (parsed.record is None) == bool(parsed.faults)
