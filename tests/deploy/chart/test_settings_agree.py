"""The chart's schema takes a setting if and only if the service does."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError
from pydantic_core import SchemaValidator

from deploy.rendering.settings_schema import SERVICES
from shared.domain.resources import parse_quantity
from shared.errors import ConfigurationError, InvalidObject
from shared.settings import ServiceSettings
from tests.support.cluster.helm import CHART, NEEDS_HELM, rendered

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
BOUNDS = ("greater_than", "greater_than_equal", "less_than", "less_than_equal")
"""What the schema cannot say of a number in quotes."""
NUMBERS = (0, 1, 7, 0.5, 2.5, 45, 1200, 1_000_000, 10_000_000, -1, -0.5)
TEXTS = (
    *("5s", "1m30s", "1.5h", "250ms", "20", "2.5", "1e3", "-1", "5 s", "5sec", "5 minutes", "1d"),
    *("-5s", "s", "true", "True", "off", "maybe", "none", "words of any kind", "0", "1", "7"),
    *("NodeRepair=true", "NodeRepair=true,Drift=FALSE", " Drift = 1 , ", "NodeRepair", "Drift=on"),
    *("NoSuchGate=true", "NodeRepair=true;Drift=true", "NodeClassCEL=true", "NodeRepair: true"),
    *("eu-central-1", "us-gov-west-1", "cn-north-1", "ap-southeast-10", "us-iso-east-1"),
    *("eu-central-1a", "Frankfurt", "eu-central", "EU-CENTRAL-1", "eu_central_1", "euc1"),
    *('{"team": "web"}', "{}", "[]", "team=web", "delete", "cordon", "Respect", "info", "INFO"),
    *("a" * 16, "a" * 15, "http://collector:4318", "collector:4318", "s3://records/prod", "s3://"),
    *("blue-*", "blue[1]", "a:b", "a\\b", "my_cluster.1"),
    *("kube-system/status", "status", "a" * 101, "a" * 301),
)


def read_by_service(kind: type[ServiceSettings], name: str, text: str) -> set[str]:
    """The kinds of the faults that the service finds in its variable."""
    validator = cast(SchemaValidator, kind.__pydantic_validator__)
    required = {"cluster_name": "blue", "aws_region": "eu-central-1"}
    given = {field: text for field, text in required.items() if field in kind.model_fields}
    try:
        validator.validate_python({**given, name.lower(): text})
    except ValidationError as error:
        return {one["type"] for one in error.errors()}
    return set()


def as_variable(value: Any) -> str:
    """As the chart writes a value into a ConfigMap."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def disagreements(kind: type[ServiceSettings], name: str, schema: dict[str, Any]) -> list[str]:
    validator = Draft202012Validator(schema)
    found = []
    for value in (*NUMBERS, *TEXTS, True, False):
        faults = read_by_service(kind, name, as_variable(value))
        if isinstance(value, str) and faults and faults <= {*BOUNDS}:
            continue
        # A word has to be in quotes.
        taken = validator.is_valid(value) or (
            schema["type"] == "string" and validator.is_valid(as_variable(value))
        )
        if taken == bool(faults):
            found.append(f"{name}={value!r}: the schema takes it: {taken}, the service: {faults}")
    return found


@pytest.mark.parametrize("service", SERVICES)
def test_the_schema_takes_what_the_service_takes_and_nothing_else(service: str) -> None:
    found = [
        fault
        for name, schema in SCHEMA["$defs"][f"{service}Settings"]["properties"].items()
        for fault in disagreements(SERVICES[service], name, schema)
    ]
    assert found == [], chr(10).join(found)


QUANTITIES = (
    *("100m", "1", "0.5", ".5", "1.", "256Mi", "1Gi", "1e3", "1E", "2k", "+1"),
    *("100 m", "100M i", "half", "", "-1", "1gb", "256MB", "1Kib", "1,5", "m", 1, 0.25, 0, -1),
)


@pytest.mark.parametrize("text", QUANTITIES, ids=repr)
def test_amounts_of_resources_are_quantities(text: str | float) -> None:
    """As the API server and the planner read them; the API server refuses negative ones."""
    try:
        valid = parse_quantity(text, field="cpu") >= Decimal(0)
    except InvalidObject:
        valid = False
    validator = Draft202012Validator(SCHEMA).evolve(schema=SCHEMA["$defs"]["resources"])
    assert validator.is_valid({"requests": {"cpu": text}}) == valid
    assert not validator.is_valid({"requests": {"cpus": text}})


@NEEDS_HELM
@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"settings": {"AWS_REGION": "eu-central-1a"}}, "/settings/AWS_REGION"),
        ({"settings": {"BATCH_MAX_DURATION": "ten"}}, "/settings/BATCH_MAX_DURATION"),
        ({"settings": {"FEATURE_GATES": "Drift"}}, "/settings/FEATURE_GATES"),
        ({"scheduler": {"resources": {"requests": {"cpu": "1 core"}}}}, "/requests/cpu"),
        ({"launcher": {"strategy": {"rollingUpdate": {"maxSurge": "one"}}}}, "/maxSurge"),
    ],
    ids=str,
)
def test_helm_names_the_wrong_value(values: dict[str, Any], field: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=field):
        rendered(values, tmp_path)


@NEEDS_HELM
def test_helm_takes_every_documented_form(tmp_path: Path) -> None:
    """Go reads the patterns too."""
    settings = {
        **{"FEATURE_GATES": "NodeRepair=true, Drift=False", "AWS_TAGS": '{"team": "web"}'},
        **{"BATCH_MAX_DURATION": "1m30s", "RESYNC_SECONDS": 15, "VALIDATION_DELAY": "1.5s"},
        **{"API_DOCS": "yes", "ISOLATED_VPC": True, "MAX_NODES": "100", "NODE_PRICE": 0.1},
    }
    found = rendered({"settings": settings}, tmp_path)
    shown = next(
        one["data"]
        for one in found
        if one["kind"] == "ConfigMap" and "BATCH_MAX_DURATION" in one["data"]
    )
    assert shown["MAX_NODES"] == "100"
    assert shown["NODE_PRICE"] == "0.1"
