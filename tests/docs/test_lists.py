"""Lists in the documents name everything there is: who adds a thing and forgets its row fails here.

Metrics: tests/shared/metrics/test_catalogue.py. Fields of the API: tests/deploy/test_crds.py. Messages: tests/golden.
"""

from __future__ import annotations

import pkgutil
import re
from importlib import import_module

import pytest

import shared.disruption
from services.interruption.actions.policy import action_for
from services.interruption.notices.notice import NoticeKind
from shared import settings
from shared.redis.streams import GROUPS, PUBLISHERS
from tests.support.texts.citations import PROJECT

DOCS = PROJECT / "docs"
SERVICES = [
    settings.WatcherSettings,
    settings.SchedulerSettings,
    settings.LauncherSettings,
    settings.TerminatorSettings,
    settings.InterruptionSettings,
    settings.ConsoleSettings,
]


def first_cells(*names: str) -> set[str]:
    """What stands in backticks in the first cell of the rows of all tables on these pages."""
    rows = [
        line.split("|")[1]
        for name in names
        for line in (DOCS / name).read_text().splitlines()
        if line.startswith("| ")
    ]
    return {found for cell in rows for found in re.findall(r"`([^`]+)`", cell)}


@pytest.mark.parametrize("kind", SERVICES, ids=lambda kind: kind.__name__)
def test_every_setting_has_a_row(kind: type[settings.ServiceSettings]) -> None:
    """In a table of docs/operating/settings.md or of the page of its subject."""
    rows = first_cells(
        "operating/settings.md",
        "behaviour/interruption.md",
        "behaviour/consolidation.md",
        "behaviour/scale-down.md",
    )
    assert {name.upper() for name in kind.model_fields} - rows == set()


def test_every_kind_of_notice_that_is_acted_on_has_a_row() -> None:
    """INT-16: under "What is done", or where what undoes an earlier notice is explained."""
    kinds = {str(kind) for kind in NoticeKind if action_for(kind)}
    assert len(kinds) > 10
    page = (DOCS / "behaviour" / "interruption.md").read_text()
    assert {kind for kind in kinds if f"`{kind}`" not in page} == set()


def test_every_method_of_disruption_is_named_with_its_metrics() -> None:
    modules = pkgutil.walk_packages(shared.disruption.__path__, "shared.disruption.")
    methods = {getattr(import_module(one.name), "METHOD", None) for one in modules} - {None}
    assert len(methods) > 5
    page = (DOCS / "operating" / "metrics.md").read_text()
    assert {method for method in methods if f"`{method}`" not in page} == set()


def test_every_stream_has_a_row() -> None:
    assert (GROUPS.keys() | PUBLISHERS.keys()) - first_cells("spec/design.md") == set()
