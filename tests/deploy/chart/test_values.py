"""What a user may say in values: every wrong word is one clear error that names the field."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from deploy.rendering import helm
from deploy.rendering.settings_schema import OF_THE_CHART, SERVICES
from shared.errors import ConfigurationError
from tests.support.cluster.helm import (
    CHART,
    CRDS,
    MATRIX,
    NEEDS_HELM,
    REQUIRED,
    Values,
    rendered,
    with_required,
)

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())
VALIDATOR = Draft202012Validator(SCHEMA)
FREE = (
    "podAnnotations",
    "podLabels",
    "nodeSelector",
    "labels",
    "annotations",
    "monitoringPodLabels",
)
"""Maps whose names are the user's."""


def merged(base: Any, over: Any) -> Any:
    """As Helm merges values."""
    if isinstance(base, dict) and isinstance(over, dict):
        return {
            name: merged(base.get(name), over.get(name, base.get(name))) for name in base | over
        }
    return over


def faults(values: Values) -> list[str]:
    found = VALIDATOR.iter_errors(merged(DEFAULTS, values))
    return [f"{error.json_path}: {error.message}" for error in found]


def objects_of(values: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every object whose keys are the chart's."""
    parts = values.items() if isinstance(values, dict) else enumerate(values)
    if isinstance(values, dict):
        yield path
    for name, one in parts:
        if (
            isinstance(one, dict | list)
            and name not in FREE
            and not {"requests", "limits"} & {name}
        ):
            yield from objects_of(one, (*path, name))


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", MATRIX)
def test_good_values_are_good(name: str) -> None:
    assert faults(with_required(MATRIX[name])) == []


def test_every_default_has_a_place_in_the_schema_and_every_place_a_meaning() -> None:
    assert DEFAULTS.keys() == SCHEMA["properties"].keys() - {"global"}
    assert [name for name, one in SCHEMA["properties"].items() if not one.get("description")] == []


def test_an_unknown_key_is_an_error_wherever_it_is() -> None:
    """Of all objects of all values that the matrix has."""
    tried = 0
    whole = DEFAULTS
    for values in MATRIX.values():
        whole = merged(whole, with_required(values))
    for path in objects_of(whole):
        if "valueFrom" in path or "tolerations" in path:
            continue  # Kubernetes' own, which the API server checks
        wrong = copy.deepcopy(whole)
        found = wrong
        for part in path:
            found = found[part]
        found["colour"] = "blue"
        assert any("'colour' was unexpected" in fault for fault in faults(wrong)), path
        tried += 1
    assert tried > 50


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"settings": {"CLUSTERNAME": "blue"}}, "CLUSTERNAME"),
        ({"settings": {"QUESTIONS": False}}, "$.settings.QUESTIONS"),  # what YAML reads in off
        ({"settings": {"REDIS_URL": "redis://redis"}}, "REDIS_URL"),
        ({"watcher": {"settings": {"MAX_NODES": 3}}}, "MAX_NODES"),
        ({"scheduler": {"replicas": 0}}, "$.scheduler.replicas"),
        ({"scheduler": {"replicas": "2"}}, "$.scheduler.replicas"),
        ({"aws": {"roles": {"launcher": "my-role"}}}, "$.aws.roles.launcher"),
        ({"image": {"digest": "sha256:1"}}, "$.image.digest"),
        ({"karpenter": {"lease": "karpenter"}}, "$.karpenter.lease"),
        ({"redis": {"external": {"cidrs": ["10.0.0.1"]}}}, "$.redis.external.cidrs[0]"),
        ({"networkPolicy": {"apiServerPorts": [0]}}, "$.networkPolicy.apiServerPorts[0]"),
        ({"extraEnv": [{"value": "1"}]}, "$.extraEnv[0]"),
        ({"agents": {"namespace": "Agents"}}, "$.agents.namespace"),
        ({"monitoring": {"podMonitor": {"interval": "often"}}}, "$.monitoring.podMonitor.interval"),
    ],
    ids=str,
)
def test_a_wrong_value_is_an_error_that_names_it(values: Values, field: str) -> None:
    found = faults(merged(REQUIRED, values))
    assert found
    assert all(field in fault for fault in found)


def test_every_setting_of_every_service_is_a_value() -> None:
    """But for those that follow from the release, and Secrets."""
    for name, kind in SERVICES.items():
        own = SCHEMA["$defs"][f"{name}Settings"]["properties"]
        assert {*own} == {one.upper() for one in kind.model_fields if one not in OF_THE_CHART}
        assert {*own} <= {*SCHEMA["$defs"]["settings"]["properties"]}
    known = {name for kind in SERVICES.values() for name in kind.model_fields}
    assert known >= OF_THE_CHART, "a setting that is gone"


@NEEDS_HELM
class TestHelm:
    """The same words from Helm itself."""

    def test_lint_finds_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "values.yaml").write_text(yaml.safe_dump(REQUIRED))
        words = ("lint", "--strict", "--kube-version", helm.KUBERNETES, "--values")
        for chart in (CHART, CRDS):
            values = [str(tmp_path / "values.yaml")] if chart == CHART else ["/dev/null"]
            assert "0 chart(s) failed" in helm.helm(*words, *values, str(chart))

    def test_an_unknown_key_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError, match="'colour' not allowed") as refusal:
            rendered({"redis": {"bundled": {"colour": "blue"}}}, tmp_path)
        assert "/redis/bundled" in str(refusal.value)

    def test_all_that_is_missing_is_said_at_once(self) -> None:
        with pytest.raises(ConfigurationError) as refusal:
            helm.template(CHART, "--set", "aws.credentials=irsa")
        said = str(refusal.value)
        for field in (
            *("image.repository", "settings.CLUSTER_NAME", "settings.AWS_REGION"),
            *("aws.roles.launcher", "aws.roles.terminator", "aws.roles.interruption"),
        ):
            assert f"- {field} is missing: the " in said

    @pytest.mark.parametrize(
        ("values", "field"),
        [
            ({"redis": {"secretName": "mine"}}, "redis.secretName"),
            ({"agents": {"enabled": True, "namespace": "platform"}}, "agents.namespace"),
            ({"kubectlPlugin": {"approvals": True}}, "kubectlPlugin.approvals"),
            (
                {"redis": {"bundled": {"enabled": False, "persistence": {"enabled": True}}}},
                "redis.bundled.persistence.enabled",
            ),
            (
                {"redis": {"bundled": {"persistence": {"existingClaim": "mine"}}}},
                "redis.bundled.persistence.existingClaim",
            ),
            ({"redis": {"external": {"iam": True}}}, "redis.external.iam"),
            (
                {"records": {"store": "", "existingClaim": "records"}},
                "records.existingClaim",
            ),
        ],
    )
    def test_values_that_contradict_each_other_are_refused(
        self, values: Values, field: str, tmp_path: Path
    ) -> None:
        with pytest.raises(ConfigurationError, match=f"- {field} "):
            rendered(values, tmp_path)

    def test_the_chart_of_the_kinds_has_no_values(self) -> None:
        with pytest.raises(ConfigurationError, match="'colour' not allowed"):
            helm.template(CRDS, "--set", "colour=blue")
