"""Names of variables and labels are there once: a server-side apply or a strict reader of YAML refuses a second."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shared.errors import ConfigurationError
from tests.support.cluster.helm import NEEDS_HELM, Values, rendered

pytestmark = NEEDS_HELM
Environment = list[tuple[str, Any]]


def variables(values: Values, folder: Path, service: str = "scheduler") -> Environment:
    """Name and value of each, in their order."""
    (found,) = (
        one
        for one in rendered(values, folder)
        if one["kind"] == "Deployment" and one["metadata"]["name"] == f"dovetail-{service}"
    )
    (container,) = found["spec"]["template"]["spec"]["containers"]
    return [(one["name"], one.get("value")) for one in container["env"]]


def env(name: str, value: str) -> dict[str, str]:
    return {"name": name, "value": value}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            {"extraEnv": [env("A", "1")], "scheduler": {"extraEnv": [env("A", "2")]}},
            ("A", "2"),
        ),
        (
            {
                "extraEnv": [env("LOG_LEVEL", "info")],
                "scheduler": {"settings": {"LOG_LEVEL": "debug"}},
            },
            ("LOG_LEVEL", "debug"),
        ),
        (
            {
                "scheduler": {
                    "settings": {"LOG_LEVEL": "debug"},
                    "extraEnv": [env("LOG_LEVEL", "error")],
                }
            },
            ("LOG_LEVEL", "error"),
        ),
        (
            {"extraEnv": [env("RECORD_STORE", "/elsewhere")]},
            ("RECORD_STORE", "/elsewhere"),
        ),
    ],
)
def test_what_is_said_of_one_service_replaces_what_is_said_of_all(
    values: Values, expected: tuple[str, str], tmp_path: Path
) -> None:
    found = variables(values, tmp_path)
    assert [one for one in found if one[0] == expected[0]] == [expected]


def test_other_services_keep_what_is_said_of_all(tmp_path: Path) -> None:
    values = {"extraEnv": [env("A", "1")], "scheduler": {"extraEnv": [env("A", "2")]}}
    assert variables(values, tmp_path, "launcher") == [("A", "1")]


def test_other_names_and_their_order_stay(tmp_path: Path) -> None:
    """One variable may refer to another one before it."""
    values = {
        "extraEnv": [env("A", "1"), env("B", "$(A)")],
        "scheduler": {"extraEnv": [env("C", "$(B)")]},
    }
    found = variables(values, tmp_path)
    assert found[-3:] == [("A", "1"), ("B", "$(A)"), ("C", "$(B)")]


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"podLabels": {"app.kubernetes.io/name": "a"}}, "podLabels"),
        ({"scheduler": {"podLabels": {"app.kubernetes.io/component": "a"}}}, "scheduler.podLabels"),
        ({"agents": {"podLabels": {"app.kubernetes.io/name": "a"}}}, "agents.podLabels"),
    ],
)
def test_labels_by_which_the_chart_selects_are_refused(
    values: Values, field: str, tmp_path: Path
) -> None:
    """They were there twice: strict readers of YAML refuse that, others take one of both."""
    with pytest.raises(ConfigurationError, match=rf"- {field} must not have app.kubernetes.io/"):
        rendered(values, tmp_path)
