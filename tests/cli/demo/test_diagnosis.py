"""Why a scenario failed: each part is asked by itself, and one that does not answer is a line of the result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.demo.diagnosis import (
    _EVENT_LIMIT,
    _LOG_LINE_LIMIT,
    _log_lines,
    explain,
    false_conditions,
    latest_warnings,
)
from cli.stack.bus import connected_bus
from cli.stack.environment import Environment
from shared.kube.resources import EVENTS, NODE_POOLS
from shared.redis import streams
from tests.services.conftest import store_with_our_kinds
from tests.support.cluster.fixture import connect, embedded_api_server, write_kubeconfig
from tests.support.redis.fixture import redis_server
from tests.support.redis.server import RedisServer

__all__ = ["redis_server"]

NOWHERE = "http://127.0.0.1:9"


def warning(message: str, at: str, **changes: Any) -> dict[str, Any]:
    about = {"kind": "Node", "name": "a"}
    base = {"type": "Warning", "reason": "Failed", "involvedObject": about}
    return {**base, "message": message, "lastTimestamp": at, **changes}


def test_conditions_that_are_not_true_are_told_with_their_message() -> None:
    conditions = [
        {"type": "Ready", "status": "False", "reason": "NoSubnets", "message": "none found"},
        {"type": "Valid", "status": "Unknown", "message": "not yet"},
        {"type": "Silent", "status": "False", "message": ""},
        {"type": "Good", "status": "True", "message": "all is well"},
    ]
    raw = {"kind": "NodePool", "metadata": {"name": "a"}, "status": {"conditions": conditions}}
    assert false_conditions(raw) == [
        "nodepool/a: Ready is False: NoSubnets none found",
        "nodepool/a: Valid is Unknown:  not yet",
    ]
    assert false_conditions({"kind": "NodePool", "metadata": {"name": "a"}}) == []


def test_warnings_are_told_once_and_in_the_order_of_time() -> None:
    events = [
        warning("second", "2026-01-01T00:00:02Z"),
        warning("first", "2026-01-01T00:00:01Z"),
        warning("first", "2026-01-01T00:00:03Z"),
        warning("calm", "2026-01-01T00:00:04Z", type="Normal"),
    ]
    assert latest_warnings(events) == [
        "event of Node/a: Failed: first",
        "event of Node/a: Failed: second",
    ]


def test_only_the_latest_warnings_are_told_and_none_is_endless() -> None:
    many = [warning(f"{number:02}" + "x" * 600, f"{number:04}") for number in range(20)]
    told = latest_warnings(many)
    assert len(told) == _EVENT_LIMIT
    assert all(len(line) == 500 for line in told)
    assert "Failed: 12x" in told[0]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"level": "WARNING", "message": "slow", "seconds": 3}', "WARNING slow {'seconds': 3}"),
        ('{"level": "ERROR", "message": "broken", "time": "now"}', "ERROR broken"),
        ('{"level": "INFO", "message": "fine"}', None),
        ('["Error"]', None),
        ("ValueError: 3", "ValueError: 3"),
        ("Traceback (most recent call last):", None),
    ],
)
def test_severe_lines_of_a_log_are_told(line: str, told: str | None, tmp_path: Path) -> None:
    (tmp_path / "watcher.log").write_text(line + "\n")
    assert _log_lines(tmp_path) == ([] if told is None else [f"watcher.log: {told}"])


def test_of_each_log_the_last_severe_lines_are_told(tmp_path: Path) -> None:
    lines = [json.dumps({"level": "ERROR", "message": str(number)}) for number in range(9)]
    for name in ("b.log", "a.log"):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    told = _log_lines(tmp_path)
    assert len(told) == 2 * _LOG_LINE_LIMIT
    assert (told[0], told[-1]) == ("a.log: ERROR 4", "b.log: ERROR 8")


@pytest.mark.slow
async def test_parts_that_do_not_answer_are_lines(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "kubeconfig", NOWHERE)
    services = {"watcher": NOWHERE}
    environment = Environment(str(path), "redis://127.0.0.1:9/0", NOWHERE, "explained", services)
    cluster, service, redis = await explain(environment, tmp_path)
    assert cluster.startswith("cluster: ")
    assert service.startswith(f"watcher is not ready: {NOWHERE}/readyz")
    assert redis.startswith("redis: ")


async def test_conditions_events_and_full_streams_are_lines(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    with embedded_api_server(store=store_with_our_kinds()) as url:
        path = write_kubeconfig(tmp_path / "kubeconfig", url)
        await broken_pool(path)
        environment = Environment(str(path), redis_server.url, NOWHERE, "explained", {})
        async with connected_bus(redis_server.url, "explained") as bus:
            await bus.redis.xadd(f"{bus.prefix}{streams.LAUNCHES}", {"type": "any"})
        assert await explain(environment, tmp_path) == [
            "nodepool/default: Ready is False: Missing no class",
            "event of NodePool/default: Failed: no class",
            f"stream {streams.LAUNCHES}: 0 pending for launcher, 0 dead",
        ]


async def broken_pool(kubeconfig: Path) -> None:
    """A NodePool that is not ready, and a warning about it."""
    kube = await connect(kubeconfig)
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    template = {"spec": {"requirements": [], "nodeClassRef": reference}}
    pool = {"metadata": {"name": "default"}, "spec": {"template": template}}
    await kube.create(NODE_POOLS, pool)
    condition = {
        "type": "Ready", "status": "False", "reason": "Missing", "message": "no class",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    status = {"status": {"conditions": [condition]}}
    await kube.patch(NODE_POOLS, "default", status, subresource="status")
    about = {"kind": "NodePool", "name": "default"}
    event = warning("no class", "2026-01-01T00:00:00Z", involvedObject=about)
    await kube.create(EVENTS, {"metadata": {"name": "one"}, **event}, "default")
    await kube.close()
