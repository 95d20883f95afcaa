"""Node classes: what they select was found, and the launcher calls them ready."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from cli.operations.doctor.finding import Finding, Installation, failed, not_checked, ok
from cli.stack.cluster import listed
from shared.kube.resources import AWS_NODE_TEMPLATES, EC2_NODE_CLASSES

FOUND = {"subnets": "subnets", "securityGroups": "security groups", "amis": "images"}


async def classes(installation: Installation) -> AsyncIterator[Finding]:
    """One finding per class of both generations."""
    count = 0
    for resource in (EC2_NODE_CLASSES, AWS_NODE_TEMPLATES):
        for raw in await listed(installation.kube, resource):
            count += 1
            yield class_finding(f"{resource.kind} {raw['metadata']['name']}", raw)
    if not count:
        yield not_checked("node classes", "there is none", "kubectl apply -f: docs/reference.md")


def class_finding(check: str, raw: Any) -> Finding:
    """By the status that the launcher writes."""
    status = raw.get("status") or {}
    for one in status.get("conditions") or []:
        if one["type"] == "Ready" and one["status"] != "True":
            why = f"{one.get('reason', '')}: {one.get('message', '')}"
            return failed(check, why, _edit(check))
    if missing := [text for key, text in FOUND.items() if not status.get(key)]:
        found = f"it has found no {', '.join(missing)}"
        return failed(check, found, f"{_edit(check)}; dovetail logs launcher")
    counts = (f"{len(status[key])} {text}" for key, text in FOUND.items())
    return ok(check, ", ".join(counts))


def _edit(check: str) -> str:
    kind, name = check.split(" ")
    return f"kubectl edit {kind.lower()} {name}"
