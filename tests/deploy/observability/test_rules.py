"""Alerts and recording rules: each names what exists, has its section in the runbook, and fires when it should."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared.cloud.client import errors
from tests.deploy.observability.alert_cases import CASES, Case
from tests.deploy.observability.rule_files import ALERTS, FILES, KNOWN, PROJECT, RULES
from tests.docs.test_links import anchors
from tests.support.metrics.promql import faults, named, needs_promtool, promtool

PAGE = "docs/operating/alerts.md"
HEADINGS = re.findall(r"^## (Dovetail\w+)$", (PROJECT / PAGE).read_text(), re.M)


def name_of(rule: dict[str, Any]) -> str:
    return str(rule.get("alert") or rule["record"])


@pytest.mark.parametrize("rule", RULES, ids=name_of)
def test_a_rule_names_metrics_and_labels_that_exist(rule: dict[str, Any]) -> None:
    assert list(faults(rule["expr"], KNOWN)) == []


@pytest.mark.parametrize("rule", ALERTS.values(), ids=name_of)
def test_an_alert_says_how_urgent_it_is_and_shows_only_labels_that_it_has(
    rule: dict[str, Any],
) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning")
    found = named(rule["expr"])
    labels = found.grouped | {label for _, label in found.matched}
    labels |= set().union(*(KNOWN[metric] for metric in found.metrics if ":" in metric))
    assert set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])) <= labels


@pytest.mark.parametrize("rule", ALERTS.values(), ids=name_of)
def test_an_alert_has_its_section_in_the_runbook(rule: dict[str, Any]) -> None:
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    assert (page, anchor) == (PAGE, rule["alert"].lower())
    assert anchor in anchors(PROJECT / PAGE)


def test_each_section_of_the_runbook_has_its_alert() -> None:
    assert sorted(HEADINGS) == sorted(ALERTS)


@pytest.mark.parametrize("name", HEADINGS)
def test_a_section_says_what_to_look_at_and_how_to_mend(name: str) -> None:
    text = (PROJECT / PAGE).read_text().split(f"## {name}\n")[1].split("\n## ")[0]
    assert "- Look at: " in text
    assert "- Mend: " in text


@pytest.mark.parametrize(
    ("alert", "codes"),
    [
        ("DovetailNoCapacity", errors.CAPACITY_CODES - {"Unsupported"}),
        ("DovetailThrottled", errors.THROTTLING_CODES),
    ],
)
def test_the_alerts_of_aws_know_every_code(alert: str, codes: frozenset[str]) -> None:
    """``Unsupported`` is no shortage: the zone does not have the type."""
    (pattern,) = re.findall(r'=~"([^"]+)"', ALERTS[alert]["expr"])
    assert [code for code in sorted(codes) if not re.fullmatch(pattern, code)] == []


@needs_promtool
@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_prometheus_itself_can_load_the_rules(file: Path) -> None:
    assert "SUCCESS" in promtool("check", "rules", file)


def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    """``DovetailCostAboveLimit`` cannot fire before somebody writes a limit; its case writes one."""
    for fires in (True, False):
        assert sorted({one.alert for one in CASES if bool(one.fires) == fires}) == sorted(ALERTS)


def selector(labels: dict[str, str]) -> str:
    inner = ", ".join(f'{label}="{value}"' for label, value in labels.items())
    return f"{{{inner}}}"


def metrics_of(case: Case) -> set[str]:
    return {series.partition("{")[0] for series in case.series}


def packed(cases: Iterable[Case]) -> list[list[Case]]:
    """Groups of cases that share no metric: promtool evaluates every rule for each group, which takes a while."""
    groups: list[list[Case]] = []
    for case in cases:
        free = (
            group
            for group in groups
            if not any(metrics_of(case) & metrics_of(one) for one in group)
        )
        group = next(free, None)
        if group is None:
            groups.append(group := [])
        group.append(case)
    return groups


def group_of(cases: list[Case]) -> dict[str, Any]:
    """A test group of ``promtool test rules``."""
    series = {name: values for case in cases for name, values in case.series.items()}
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [question_of(case) for case in cases],
    }


def question_of(case: Case) -> dict[str, Any]:
    """Which of the alert fire, by the labels that the case names."""
    shown = ", ".join(case.fires[0]) if case.fires else ""
    return {
        "expr": f'count by ({shown}) (ALERTS{{alertname="{case.alert}", alertstate="firing"}})',
        "eval_time": f"{case.at}m",
        "exp_samples": [{"labels": selector(one), "value": 1} for one in case.fires],
    }


@needs_promtool
def test_alerts_fire_when_they_should_and_not_otherwise(tmp_path: Path) -> None:
    limited = tmp_path / "recording.yaml"
    for file in FILES:
        text = file.read_text().replace("vector(Inf)", "vector(100)")
        (tmp_path / file.name).write_text(text)
    assert "vector(100)" in limited.read_text()
    tests = {
        "rule_files": [file.name for file in FILES],
        "evaluation_interval": "1m",
        "tests": [group_of(cases) for cases in packed(CASES)],
    }
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(tests))
    assert "SUCCESS" in promtool("test", "rules", tmp_path / "tests.yaml")
