"""``dovetail status``: rows from raw objects, and what is told of parts that do not answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientTimeout
from typer.testing import CliRunner, Result

from cli.main import commands
from cli.operations.queues import QueueDepth
from cli.stack.status import _is_ready, _node_rows, _queue_row, policy_lines
from shared.domain import labels
from shared.errors import ConfigurationError
from shared.kube import raw_requests
from tests.cli.on_terminal import LEAVES_SECOND_SCREEN, SHOWS_CURSOR, Terminal
from tests.services.conftest import store_with_our_kinds
from tests.support.cluster.fixture import (
    embedded_api_server,
    frozen_api_server,
    write_kubeconfig,
)
from tests.support.cluster.local_cluster import LocalCluster
from tests.support.redis.fixture import redis_server
from tests.support.redis.server import RedisServer

__all__ = ["redis_server"]

NOWHERE = "http://127.0.0.1:9"
PROVIDER_ID = "aws:///us-west-2a/i-1"


def node(name: str, provider_id: str = "", **values: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": values}, "spec": {"providerID": provider_id}}


def test_a_node_has_the_price_of_its_machine_and_the_number_of_its_pods() -> None:
    machine = {
        "metadata": {"name": "m", "annotations": {labels.PRICE_ANNOTATION: "96000"}},
        "status": {"providerID": PROVIDER_ID},
    }
    values = {
        labels.INSTANCE_TYPE: "m5.large", labels.ZONE: "us-west-2a", labels.CAPACITY_TYPE: "spot",
        labels.NODE_POOL: "default",
    }  # fmt: skip
    pods: list[dict[str, Any]] = [{"spec": {"nodeName": "ip-1.internal"}}, {"spec": {}}, {}]
    nodes = [node("ip-1.internal", PROVIDER_ID, **values), node("fixed")]
    assert list(_node_rows(nodes, [machine], pods)) == [
        ("ip-1", "no", "m5.large", "us-west-2a", "spot", "0.0960", "1", "default"),
        ("fixed", "no", "", "", "", "", "0", "(fixed)"),
    ]


@pytest.mark.parametrize(
    ("status", "unschedulable", "told"),
    [("True", False, "yes"), ("False", False, "no"), ("True", True, "yes, cordoned")],
)
def test_whether_a_node_is_ready(status: str, unschedulable: bool, told: str) -> None:
    conditions = [{"type": "Ready", "status": status}]
    raw = {"metadata": {}, "status": {"conditions": conditions}} | {
        "spec": {"unschedulable": unschedulable}
    }
    assert _is_ready(raw) == told


def test_a_node_that_is_being_terminated_says_so() -> None:
    raw = {"metadata": {"deletionTimestamp": "2026-11-25T10:00:00Z"}}
    assert _is_ready(raw) == "no, terminating"


def test_a_policy_that_costs_the_same_has_no_line_and_others_say_how_old_they_are() -> None:
    found = {
        "costs": {"FewestNodes": 0.5, "LowestCost": 0.4, "Balanced": 0.50001, "Other": 0.6},
        "saves": {"LowestCost": 0.1, "Balanced": -0.00001, "Other": -0.1},
        "inForce": "FewestNodes",
        "at": 1000.0,
    }
    less, more = policy_lines(found, now=1090.0)
    assert "by LowestCost would cost $0.4000 an hour, $0.1000 less than by FewestNodes" in less
    assert less.endswith("(computed 90s ago)")
    assert "by Other would cost $0.6000 an hour, $0.1000 more than" in more
    assert list(policy_lines({"problem": "no memory"}, now=0.0)) == []


def test_a_queue_is_one_row() -> None:
    depth = QueueDepth("launches", "launcher", length=3, pending=1, behind=True, dead=2)
    assert _queue_row(depth) == ("launches", "launcher", "3", "1", "no", "2")


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    """A cluster with a node, and with more pods without a node than are named."""
    store = store_with_our_kinds()
    cluster = LocalCluster(store)
    cluster.node("ip-1.internal")
    for number in range(12):
        cluster.pod(f"pod-{number:02}")
    with embedded_api_server(store=store) as url:
        yield write_kubeconfig(tmp_path / "kubeconfig", url)


def status(tmp_path: Path, **variables: str) -> Result:
    """Where no stack runs, in a shell with these variables."""
    words = ["status"]
    here = {"COLUMNS": "200", "DOVETAIL_DIRECTORY": str(tmp_path), "CLUSTER_NAME": "status"}
    return CliRunner().invoke(commands, words, env={**here, **variables})


def test_services_queues_nodes_and_waiting_pods_are_shown(
    kubeconfig: Path, redis_server: RedisServer, tmp_path: Path
) -> None:
    done = status(
        tmp_path, KUBECONFIG=str(kubeconfig), REDIS_URL=redis_server.url, AWS_ENDPOINT_URL=NOWHERE
    )
    assert done.exit_code == 0
    assert "Services" in done.stdout
    assert [line.split()[:2] for line in done.stdout.splitlines() if "ip-1" in line] == [
        ["ip-1", "yes"]
    ]
    assert "12 pods, 12 of them without a node\n  default/pod-00\n" in done.stdout
    assert "pod-09" in done.stdout
    assert "pod-10" not in done.stdout


def test_what_does_not_answer_is_told_and_the_rest_is_shown(
    kubeconfig: Path, tmp_path: Path
) -> None:
    done = status(
        tmp_path, KUBECONFIG=str(kubeconfig), REDIS_URL="redis://127.0.0.1:9/0", AWS_ENDPOINT_URL=NOWHERE,
        DOVETAIL_WATCHER_URL=NOWHERE,
    )  # fmt: skip
    assert done.exit_code == 1
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("watcher")]
    assert row.split()[1] == "no"
    assert NOWHERE in row
    assert "127.0.0.1:9" in done.stderr
    assert "12 pods" in done.stdout


def test_a_frozen_api_server_is_told_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One question with a short bound comes before the lists, which would be repeated for two minutes."""
    monkeypatch.setattr(raw_requests, "SHORT", ClientTimeout(total=0.2))
    with frozen_api_server(tmp_path / "frozen") as kubeconfig:
        done = status(
            tmp_path, KUBECONFIG=str(kubeconfig), REDIS_URL="redis://127.0.0.1:9/0", AWS_ENDPOINT_URL=NOWHERE,
        )  # fmt: skip
    assert done.exit_code == 1
    assert "kubectl get --raw /readyz" in done.stderr


@pytest.mark.slow
def test_watch_repeats_the_picture_until_a_key_and_leaves_the_terminal_as_it_was(
    kubeconfig: Path, redis_server: RedisServer, tmp_path: Path
) -> None:
    terminal = Terminal(
        "status", "--watch", "--seconds", "0.5", KUBECONFIG=str(kubeconfig), CLUSTER_NAME="status",
        REDIS_URL=redis_server.url, AWS_ENDPOINT_URL=NOWHERE, DOVETAIL_DIRECTORY=str(tmp_path),
    )  # fmt: skip
    try:
        terminal.read_until("12 of them without a node")
        terminal.text = ""
        terminal.read_until("12 of them without a node")
        terminal.key(b"q")
        assert terminal.end() == 0
        assert LEAVES_SECOND_SCREEN in terminal.text
        assert SHOWS_CURSOR in terminal.text
        assert terminal.attributes() == terminal.before
    finally:
        terminal.close()


def test_watch_without_a_terminal_names_the_way_that_works(tmp_path: Path) -> None:
    here = {"DOVETAIL_DIRECTORY": str(tmp_path)}
    done = CliRunner().invoke(commands, ["status", "--watch"], env=here)
    assert isinstance(done.exception, ConfigurationError)
    assert "--watch needs a terminal" in done.exception.message
