"""``dovetail explain node``: what people read."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from cli.decisions.explain import bare, show
from cli.decisions.explain_pod import full_name
from cli.main import commands
from cli.operations.scheduler_status import ask, scheduler_url
from shared.errors import ConfigurationError, Unreachable

ANSWER: dict[str, Any] = {
    "node": "n1",
    "machine": "NodeClaim/m1",
    "nodePool": "NodePool/default",
    "instanceType": "m5.large",
    "zone": "us-west-2a",
    "capacityType": "spot",
    "pricePerHour": 0.096,
    "pods": [f"shop/web-{i}" for i in range(20)],
    "terminating": False,
    "conditions": {"Initialized": "True", "Consolidatable": "True", "Drifted": "False"},
    "command": "",
    "proposal": "",
    "candidate": None,
    "staysBecause": [
        {"method": m, "event": "", "reason": "", "text": "[x] pdb", "pod": "shop/web-1", "change": "add one"}
        for m in ("drift", "single-node")
    ],
}  # fmt: skip


def shown(**changes: Any) -> str:
    printed = io.StringIO()
    show(ANSWER | changes, Console(file=printed, width=120))
    return printed.getvalue()


def test_price_pods_and_conditions_are_there() -> None:
    text = shown()
    assert "$0.0960 an hour" in text
    assert "20: shop/web-0" in text
    assert "and 5 more" in text
    assert "Initialized, Consolidatable" in text
    assert "Drifted" not in text


def test_a_node_that_grows_too_old_says_when_and_what_happens_then() -> None:
    text = shown(expires={"at": 1795809987.0, "replacedFirst": False})
    assert "2026-11-27 20:06:27 UTC: it is drained, whatever holds it until then" in text
    assert "it is replaced then" in shown(expires={"at": 0.0, "replacedFirst": True})
    assert "expires" not in shown(expires=None)


def test_a_proposal_is_told_before_it_is_begun() -> None:
    text = shown(proposal="delete 2 node(s), moving 6 pod(s), saving $0.1 an hour", staysBecause=[])
    assert "delete 2 node(s), moving 6 pod(s), saving $0.1 an hour" in text
    assert "Nothing holds it" not in text


def test_a_reason_that_several_methods_give_is_told_once_with_its_change() -> None:
    """And what is in brackets is text, not markup."""
    text = shown()
    assert text.count("[x] pdb (shop/web-1)") == 1
    assert "add one" in text


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"terminating": True}, "It is being terminated: kubectl describe node n1 shows"),
        ({"terminating": True, "node": ""}, "It is being terminated."),
        ({"staysBecause": []}, "Nothing holds it"),
        ({"command": "replace 1 node(s)"}, "replace 1 node(s)"),
        ({"pricePerHour": None, "pods": []}, "not known"),
    ],
)
def test_what_is_going_on_is_said(changes: dict[str, Any], told: str) -> None:
    assert told in shown(**changes)


@pytest.mark.parametrize("name", ["n1", "node/n1", "nodeclaim.karpenter.sh/n1", "NodeClaim/n1"])
def test_a_name_may_come_with_its_kind_as_kubectl_writes_it(name: str) -> None:
    assert bare(name) == "n1"


def test_without_a_scheduler_both_ways_to_name_one_are_told() -> None:
    with pytest.raises(ConfigurationError, match=r"dovetail up --detach.*port-forward"):
        scheduler_url({})


def test_a_scheduler_that_does_not_answer_is_named() -> None:
    with pytest.raises(Unreachable, match="dovetail status"):
        ask("http://127.0.0.1:9/explain", {"node": "n1"})


@pytest.mark.parametrize("words", [("node", "n1"), ("pod", "web", "-n", "shop")])
def test_the_commands_ask_the_scheduler_that_the_shell_names(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    shell = {"DOVETAIL_DIRECTORY": str(tmp_path), "DOVETAIL_SCHEDULER_URL": "http://127.0.0.1:9"}
    done = CliRunner().invoke(commands, ["explain", *words], env=shell)
    assert isinstance(done.exception, Unreachable)
    assert "127.0.0.1:9" in done.exception.message


@pytest.mark.parametrize(
    ("words", "listed_by"),
    [
        (("explain", "node"), "kubectl get nodes"),
        (("explain", "pool"), "kubectl get nodepools,provisioners"),
        (("explain", "pod"), "kubectl get pods -A"),
        (("approve",), "dovetail approvals"),
        (("reject",), "dovetail approvals"),
    ],
)
def test_an_empty_name_is_told_what_lists_them(
    words: tuple[str, ...], listed_by: str, tmp_path: Path
) -> None:
    """As from a variable of the shell that is not set."""
    shell = {"DOVETAIL_DIRECTORY": str(tmp_path), "DOVETAIL_SCHEDULER_URL": "http://127.0.0.1:9"}
    done = CliRunner().invoke(commands, [*words, ""], env=shell)
    assert isinstance(done.exception, ConfigurationError)
    assert f"the name is empty; `{listed_by}` lists what there is" in done.exception.message


@pytest.mark.parametrize(
    ("name", "namespace", "full"),
    [("web", "", "web"), ("web", "shop", "shop/web"), ("a/web", "shop", "a/web")],
)
def test_a_namespace_in_the_name_counts(name: str, namespace: str, full: str) -> None:
    assert full_name(name, namespace) == full
