"""Explains a failed scenario: false conditions and warnings, services that are not ready, last log lines.

The queried part may be the broken part. So each part is queried independently, and a failed query becomes a line of the
result.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cli.operations.queues import queue_depths
from cli.stack.cluster import connected
from cli.stack.environment import Environment
from cli.stack.status import readiness
from local.process import last_lines
from shared.errors import DovetailError
from shared.kube.client import Object
from shared.kube.resources import (
    AWS_NODE_TEMPLATES,
    EC2_NODE_CLASSES,
    EVENTS,
    MACHINES,
    NODE_CLAIMS,
    NODE_POOLS,
    PROVISIONERS,
)

_KINDS = (
    PROVISIONERS, NODE_POOLS, AWS_NODE_TEMPLATES, EC2_NODE_CLASSES, MACHINES, NODE_CLAIMS,
)  # fmt: skip
_EVENT_LIMIT = 8
_LOG_LINE_LIMIT = 5
_SEVERE_LEVELS = ("WARNING", "ERROR", "CRITICAL")


async def explain(environment: Environment, logs: Path) -> list[str]:
    """Lines for stderr: cluster, services, queues, logs."""
    lines = await _cluster_lines(environment)
    lines += [
        f"{name} is not ready: {why}"
        for name, why in (await readiness(environment)).items()
        if why is not None
    ]
    lines += await _queue_lines(environment)
    return lines + _log_lines(logs)


async def _cluster_lines(environment: Environment) -> list[str]:
    lines: list[str] = []
    try:
        async with connected(environment.kubeconfig, command="demo") as kube:
            for resource in _KINDS:
                for raw in (await kube.list(resource)).items[:_EVENT_LIMIT]:
                    lines += false_conditions(raw)
            lines += latest_warnings((await kube.list(EVENTS)).items)
    except DovetailError as error:
        lines.append(f"cluster: {error.message}")
    return lines


def false_conditions(raw: Object) -> list[str]:
    """One line for each condition of an object that is not True and has a message."""
    name = f"{raw['kind'].lower()}/{raw['metadata']['name']}"
    conditions = (raw.get("status") or {}).get("conditions") or []
    return [
        f"{name}: {c['type']} is {c['status']}: {c.get('reason', '')} {c['message']}"
        for c in conditions
        if c.get("status") != "True" and c.get("message")
    ]


def latest_warnings(events: list[Object]) -> list[str]:
    """The latest Warning events, without repeated messages."""
    newest_last = sorted(events, key=lambda event: str(event.get("lastTimestamp") or ""))
    unique: dict[tuple[str, str], str] = {}
    for event in newest_last:
        if event.get("type") == "Warning":
            about = event.get("involvedObject") or {}
            text = f"{about.get('kind', '')}/{about.get('name', '')}: {event.get('reason', '')}: "
            key = (str(event.get("reason", "")), str(event.get("message", "")))
            unique[key] = text + str(event.get("message", ""))
    return [f"event of {line}"[:500] for line in list(unique.values())[-_EVENT_LIMIT:]]


async def _queue_lines(environment: Environment) -> list[str]:
    try:
        depths = await queue_depths(environment.redis_url, environment.cluster_name)
    except DovetailError as error:
        return [f"redis: {error.message}"]
    return [
        f"stream {depth.stream}: {depth.pending} pending for {depth.group}, {depth.dead} dead"
        for depth in depths
        if depth.dead or not depth.drained
    ]


def _log_lines(logs: Path) -> list[str]:
    lines: list[str] = []
    for log in sorted(logs.glob("*.log")):
        tail = [text for line in last_lines(log, 200) if (text := _severe(line))]
        lines += [f"{log.name}: {text[:300]}" for text in tail[-_LOG_LINE_LIMIT:]]
    return lines


def _severe(line: str) -> str | None:
    """A JSON line of level WARNING or above as text, or the last line of a traceback; None for any other line."""
    try:
        entry: Any = json.loads(line)
    except ValueError:
        return line if "Error" in line else None
    if not isinstance(entry, dict) or entry.get("level") not in _SEVERE_LEVELS:
        return None
    extra = {k: v for k, v in entry.items() if k not in ("time", "level", "message", "logger")}
    return f"{entry['level']} {entry.get('message', '')} {extra or ''}".rstrip()
