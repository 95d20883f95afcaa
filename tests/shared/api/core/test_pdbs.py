"""PodDisruptionBudgets as disruption reads them (DIS-11, TRM-08)."""

from __future__ import annotations

from typing import Any

import pytest

from shared.api.core.pdbs import parse_pdb
from shared.domain.workloads.pdbs import budgets_of
from shared.errors import InvalidObject
from tests.support.planning.builders import make_pod


def pdb(selector: Any, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"uid": "u", "namespace": "default", "name": "web"},
        "spec": {"selector": selector, "maxUnavailable": 1},
        "status": status,
    }


def test_the_status_says_how_many_pods_may_go() -> None:
    assert parse_pdb(pdb({"matchLabels": {"app": "web"}}, disruptionsAllowed=2)).allowed == 2


def test_a_budget_whose_status_was_never_written_allows_nothing() -> None:
    assert parse_pdb(pdb({"matchLabels": {"app": "web"}})).allowed == 0


@pytest.mark.parametrize(
    ("selector", "protected"),
    [
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "api"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "x"]}]}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({}, True),
        (None, False),
    ],
)
def test_a_selector_says_whom_it_protects(selector: Any, protected: bool) -> None:
    """policy/v1: an empty selector protects the whole namespace, none at all nobody."""
    pod = make_pod("web-1", labels={"app": "web"})
    assert bool(budgets_of(pod, [parse_pdb(pdb(selector))])) is protected


def test_it_protects_its_own_namespace_only() -> None:
    pod = make_pod("web-1", namespace="other", labels={"app": "web"})
    assert not budgets_of(pod, [parse_pdb(pdb({}))])


def test_an_unknown_operator_is_named_with_its_field() -> None:
    wrong = {"matchExpressions": [{"key": "app", "operator": "Gt", "values": ["1"]}]}
    with pytest.raises(InvalidObject, match=r"spec\.selector\.matchExpressions\[0\]\.operator"):
        parse_pdb(pdb(wrong))
