"""Who brings Karpenter's settings along is told which have no meaning here (OPS-01)."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.settings import (
    InterruptionSettings,
    LauncherSettings,
    SchedulerSettings,
    TerminatorSettings,
    WatcherSettings,
)
from shared.settings.reading import INSTEAD, without_meaning

DOCS = Path(__file__).resolve().parents[3] / "docs" / "operating" / "settings.md"
OURS = (
    WatcherSettings, SchedulerSettings, LauncherSettings, TerminatorSettings, InterruptionSettings,
)  # fmt: skip


def test_settings_without_meaning_are_named() -> None:
    variables = {"MEMORY_LIMIT": "1", "CLUSTER_NAME": "a", "HOME": "/", "LEADER_ELECT": ""}
    assert without_meaning(variables) == {"MEMORY_LIMIT": "set the container's limit"}


def test_the_address_of_a_service_is_no_setting() -> None:
    """Kubernetes writes such variables for every Service of the namespace."""
    assert without_meaning({"METRICS_PORT": "tcp://10.0.0.1:8080"}) == {}


@pytest.mark.parametrize("name", sorted(INSTEAD))
def test_what_is_said_to_have_no_meaning_has_none_and_stands_in_the_docs(name: str) -> None:
    assert all(name.lower() not in kind.model_fields for kind in OURS)
    assert f"`{name}`" in DOCS.read_text().partition("## Settings of Karpenter")[2]
