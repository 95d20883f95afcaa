"""kube-scheduler's configuration (SCH-85)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from shared.api.core.scheduler_config import SYSTEM_CONSTRAINTS, default_spread
from shared.domain import labels as keys
from shared.domain.workloads.pods import SpreadConstraint
from shared.errors import InvalidObject
from tests.shared.api.conftest import json_values

FILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: another
  - schedulerName: default-scheduler
    pluginConfig:
      - name: NodeResourcesFit
        args: {scoringStrategy: {type: MostAllocated}}
      - name: PodTopologySpread
        args:
          defaultingType: List
          defaultConstraints:
            - maxSkew: 2
              topologyKey: topology.kubernetes.io/zone
              whenUnsatisfiable: DoNotSchedule
            - maxSkew: 1
              topologyKey: kubernetes.io/hostname
              whenUnsatisfiable: ScheduleAnyway
"""


def config(**args: Any) -> str:
    plugin = {"name": "PodTopologySpread", "args": args}
    return json.dumps({"profiles": [{"pluginConfig": [plugin]}]})


def constraint(**changes: Any) -> dict[str, Any]:
    return {"maxSkew": 1, "topologyKey": keys.ZONE, **changes}


def test_the_constraints_of_the_default_profile_are_read() -> None:
    found = [(c.max_skew, c.topology_key, c.when_unsatisfiable) for c in default_spread(FILE)]
    assert found == [(2, keys.ZONE, "DoNotSchedule"), (1, keys.HOSTNAME, "ScheduleAnyway")]


@pytest.mark.parametrize("text", ["", "{}", "profiles: []", "profiles: [{schedulerName: mine}]"])
def test_a_file_that_says_nothing_about_spreading_gives_nothing(text: str) -> None:
    assert default_spread(text) == ()


def test_karpenters_form_is_read_too() -> None:
    """OPS-01: the plugin's arguments alone. A type need not be said where constraints are."""
    listed = [constraint(maxSkew=2, whenUnsatisfiable="ScheduleAnyway")]
    for extra in ({}, {"defaultingType": "List"}):
        text = json.dumps({"podTopologySpread": {"defaultConstraints": listed, **extra}})
        (found,) = default_spread(text)
        assert (found.max_skew, found.topology_key) == (2, keys.ZONE)
    assert default_spread("podTopologySpread: {defaultingType: System}") == SYSTEM_CONSTRAINTS


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("podTopologySpred: {defaultConstraints: []}", "podTopologySpred"),
        ("podTopologySpread: {defaultConstraint: []}", "podTopologySpread.defaultConstraint"),
        ("{podTopologySpread: {}, profiles: []}", "profiles"),
        ("podTopologySpread: 1", "podTopologySpread"),
        ("podTopologySpread: {defaultConstraints: [{maxSkew: 0}]}", "podTopologySpread.default"),
    ],
)
def test_what_says_nothing_that_is_known_is_refused(text: str, field: str) -> None:
    """A misspelt word would silently spread nothing."""
    with pytest.raises(InvalidObject) as raised:
        default_spread(text)
    assert str(raised.value).startswith(field)


def test_kube_schedulers_own_defaults_have_a_name() -> None:
    """``System`` is what kube-scheduler assumes where a plugin's arguments say nothing."""
    assert default_spread(config(defaultingType="System")) == SYSTEM_CONSTRAINTS
    assert default_spread(config()) == SYSTEM_CONSTRAINTS


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("a: [", "SCHEDULER_CONFIG"),
        ("[]", "SCHEDULER_CONFIG"),
        ("profiles: 3", "profiles"),
        (config(defaultingType="Some"), "args.defaultingType"),
        (config(defaultConstraints=[constraint()]), "args.defaultConstraints"),
        (
            config(defaultingType="List", defaultConstraints=[constraint(topologyKey="")]),
            "args.defaultConstraints[0].topologyKey",
        ),
        (
            config(defaultingType="List", defaultConstraints=[constraint(labelSelector={})]),
            "args.defaultConstraints[0].labelSelector",
        ),
    ],
)
def test_what_is_wrong_is_named(text: str, field: str) -> None:
    with pytest.raises(InvalidObject) as refused:
        default_spread(text)
    assert field in str(refused.value)


WORDS = (
    "profiles", "pluginConfig", "name", "PodTopologySpread", "args", "defaultingType", "List",
    "defaultConstraints", "maxSkew", "topologyKey", "schedulerName",
)  # fmt: skip


@given(json_values(*WORDS))
def test_any_document_is_read_or_refused(document: Any) -> None:
    try:
        found = default_spread(json.dumps(document))
    except InvalidObject:
        return
    assert all(isinstance(one, SpreadConstraint) for one in found)


def test_text_that_yaml_cannot_read_is_refused() -> None:
    for text in ("a: [", "[" * 5000, "a: 2020-13-01"):
        with pytest.raises(InvalidObject, match="is not YAML"):
            default_spread(text)
