"""The views beside the cluster: what each report shows, on terminals of any size, whatever its texts are."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from cli.top.events import snapshot_of
from cli.top.reports.views import VIEWS, Shown, View, report_lines, report_of, view_after
from cli.top.state import Received, received
from cli.top.view import Screen, lines_of
from tests.cli.top.small_console import AT, CLUSTER, DECISIONS, Document

HOSTILE = "\x1b]0;x\x07\x1b[2J\u202e\r\n\t[red]\u0301漢"
COST: Document = {
    "now": {
        "total": 1.0, "byPool": {"default": 0.75, "": 0.25}, "byCapacityType": {"spot": 1.0},
        "byNamespace": {f"team-{n}": 0.01 * n for n in range(20)},
    },
    "bound": 0.8, "boundText": "for 40 pods", "policies": {"LowestCost": 0.85}, "problem": "",
}  # fmt: skip
INTERRUPTIONS: Document = {
    "problem": "",
    "interruptions": [
        {
            "node": "NodeClaim/a", "name": "ip-a", "kind": "spot interruption", "deadline": AT + 95, "since": AT - 25,
            "state": "draining", "goneAt": None,
            "pods": [
                {"name": "shop/a", "state": "there", "goesTo": "", "type": ""},
                {"name": "shop/b", "state": "moved", "goesTo": "ip-b", "type": "m5.large"},
                {"name": "shop/c", "state": "there", "goesTo": "ip-b", "type": "m5.large"},
            ],
        },
        {"node": "NodeClaim/b", "name": "ip-z", "kind": "rebalance", "deadline": None, "since": AT - 61,
         "state": "ready"},
        {"node": "NodeClaim/c", "name": "ip-y", "kind": "spot interruption", "deadline": AT, "goneAt": AT - 40,
         "state": "gone"},
    ],
}  # fmt: skip
QUEUES: Document = {
    "problem": "",
    "queues": [
        {"stream": "dovetail:pods", "length": 12, "delayed": 1, "dead": 2, "groups": [
            {"name": "scheduler", "waiting": 1000, "waitingMore": True, "pending": 3,
             "oldestSeconds": 61.0, "consumers": 2}]},
        {"stream": "dovetail:new", "length": 1, "delayed": 0, "dead": 0, "groups": []},
    ],
    "deadLetters": [
        {"stream": "dovetail:pods", "at": AT, "error": "bad body", "message": "PodPending shop/a", "body": "{}",
         "replay": "dovetail dead-letters replay dovetail:pods 1-0"},
    ],
}  # fmt: skip
HEALTH: Document = {
    "problem": "",
    "services": [
        {"name": "watcher", "ready": True, "reasons": [], "leader": "leading", "problem": ""},
        {"name": "launcher", "ready": False, "reasons": ["no catalogue"], "leader": None, "problem": ""},
        {"name": "terminator", "ready": True, "reasons": [], "leader": "", "problem": "connection refused"},
    ],
    "leases": [{"name": "dovetail-watcher", "holder": "one", "renewed": AT - 3}],
    "mirror": {"ok": False, "reason": "no heartbeat", "ageSeconds": 40.0},
    "watches": [{"resource": "pods", "sound": True, "ageSeconds": 0.2}, {"resource": "nodes", "sound": False}],
}  # fmt: skip
STATE = received(Received(), snapshot_of(json.dumps(CLUSTER).encode()), now=0.0)
REPORTS: dict[View, Document] = {
    "decisions": DECISIONS,
    "cost": COST,
    "interruptions": INTERRUPTIONS,
    "queues": QUEUES,
    "health": HEALTH,
}


def shown(view: View, document: Document) -> Shown:
    return Shown(view, report_of(view, json.dumps(document).encode()))


def text(view: View, document: Document | None = None, width: int = 160) -> str:
    found = shown(view, REPORTS[view] if document is None else document)
    return "\n".join(line.plain for line in report_lines(found, AT, width))


def test_a_decision_has_its_reason_its_prices_and_what_was_rejected() -> None:
    assert text("decisions").splitlines() == [
        "15:59:55  provision  bought for 3 pods  3 pods  costs $0.2000/h",
        "      why: 3 pods have no place",
        "      proven lower bound $0.1600/h (25.0 % above it); LowestCost $0.1800/h with 2 machines",
        "      rejected: shop/big-0, shop/big-1, shop/big-2 and 2 more: too large",
        "15:59:00  consolidate  one node is empty  saves $0.1000/h",
    ]


def test_costs_are_divided_the_dearest_first_and_small_ones_summed_up() -> None:
    lines = text("cost").splitlines()
    assert lines[0] == "now $1.0000/h  proven lower bound $0.8000/h  25.0 % above it"
    assert lines[2] == "New machines for the same pods: LowestCost $0.8500/h"
    pools = lines.index(next(line for line in lines if line.startswith("POOL")))
    assert [line.split()[:3] for line in lines[pools + 1 : pools + 3]] == [
        ["default", "$0.7500/h", "75.0%"],
        ["none", "$0.2500/h", "25.0%"],
    ]
    assert lines[-1].split()[:2] == ["(others)", "$0.2800/h"]


def test_an_interruption_counts_down_and_says_where_the_pods_go() -> None:
    assert text("interruptions").splitlines() == [
        "ip-a  spot interruption  draining  95s left",
        "  1 pod no place yet  1 still here",
        "  2 pods → ip-b m5.large  1 still here",
        "ip-z  rebalance  ready  no deadline; announced 61s ago",
        "  no pods but those of DaemonSets",
        "ip-y  spot interruption  gone 40s before its deadline",
        "  no pods but those of DaemonSets",
    ]


def test_queues_have_their_readers_and_dead_letters_their_command() -> None:
    lines = text("queues").splitlines()
    assert lines[1].split() == [
        "dovetail:pods",
        "12",
        "1",
        "2",
        "scheduler",
        "1000+",
        "3",
        "61s",
        "2",
    ]
    assert "nobody reads it" in lines[2]
    assert lines[-1].strip() == "dovetail dead-letters replay dovetail:pods 1-0"


def test_health_has_what_is_broken_first() -> None:
    lines = text("health").splitlines()
    assert lines[0] == (
        "The mirror of the cluster cannot be relied on: no heartbeat (last heartbeat of the watcher: 40s ago)"
    )
    services = lines[lines.index(next(line for line in lines if line.startswith("SERVICE"))) + 1 :]
    assert [line.split()[0] for line in services[:3]] == ["launcher", "terminator", "watcher"]
    assert "no answer" in services[1]
    assert "connection refused" in services[1]
    assert "dovetail-watcher  one     3s ago" in lines
    assert lines[-2].split() == ["nodes", "broken", "never"]


@pytest.mark.parametrize("view", [view for view in VIEWS if view != "cluster"])
def test_an_empty_or_partial_report_is_shown_with_its_problem(view: View) -> None:
    assert (
        text(view, {"problem": "Redis does not answer"}).splitlines()[0] == "Redis does not answer."
    )
    assert "waits for the console" not in text(view, {"unknown": 1})


@pytest.mark.parametrize("view", list(REPORTS))
@pytest.mark.parametrize(("width", "height"), [(1, 1), (8, 3), (31, 10), (80, 24), (300, 90)])
def test_it_fits_a_terminal_of_any_size(view: View, width: int, height: int) -> None:
    lines = lines_of(
        STATE, Screen(width, height, live=True), "pool", 0.0, shown(view, REPORTS[view])
    )
    assert len(lines) <= height
    assert max(line.cell_len for line in lines) <= width


def test_lines_without_room_are_counted() -> None:
    lines = lines_of(STATE, Screen(80, 10, live=True), "pool", 0.0, shown("cost", COST))
    assert len(lines) == 10
    assert lines[-1].plain.startswith("  and ")
    assert lines[-1].plain.endswith(" more lines")


@given(st.sampled_from(list(REPORTS)), st.text(max_size=20))
def test_no_text_reaches_the_terminal_unescaped(view: View, words: str) -> None:
    document = _with_texts(REPORTS[view], words + HOSTILE)
    for line in report_lines(shown(view, document), AT, 400):
        assert line.plain.isprintable(), line.plain
        assert cell_len(line.plain) <= 400


def _with_texts(value: Any, words: str) -> Any:
    if isinstance(value, dict):
        return {key: _with_texts(one, words) for key, one in value.items()}
    if isinstance(value, list):
        return [_with_texts(one, words) for one in value]
    return value + words if isinstance(value, str) else value


def test_keys_choose_a_view() -> None:
    assert [view_after("cluster", str(key).encode()) for key in range(1, 7)] == list(get_args(View))
    assert view_after("cost", b"\t") == "interruptions"
    assert view_after("health", b"\t") == "cluster"
    assert view_after("cost", b"07x\xff\x1b[A") == "cost"
