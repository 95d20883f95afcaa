"""The services: each is ready, or says why not; and what a ready one says is wrong beside its work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from cli.operations.doctor.finding import Finding, Installation, failed, not_checked, ok
from cli.stack.requests import Reply, exchange, exchange_in_cluster, is_in_cluster
from cli.stack.status import PROBE_LIMIT_BYTES, PROBE_SECONDS, service_readiness
from shared.errors import DovetailError

HOW = "run it as `kubectl dovetail doctor`, or name the services: DOVETAIL_SCHEDULER_URL and so on"


async def services(installation: Installation) -> AsyncIterator[Finding]:
    """One finding per service, and one per note of a service."""
    found = await service_readiness(installation.services, installation.kube)
    if not found:
        yield not_checked("services", "no address of a service is known", HOW)
    for name, why in found.items():
        check = f"service {name}"
        if why:
            yield failed(check, why, f"dovetail logs {name}")
            continue
        yield ok(check, "ready")
        for number, note in enumerate(await _notes(installation, name), 1):
            yield failed(f"note {number} of {name}", note, f"dovetail logs {name}")


async def _notes(installation: Installation, name: str) -> list[str]:
    """None from a service that no longer answers: it was ready a moment ago."""
    try:
        reply = await _ask(installation, f"{installation.services[name]}/readyz")
    except DovetailError:
        return []
    document = reply.document if isinstance(reply.document, dict) else {}
    return [str(note) for note in document.get("notes") or []]


async def _ask(installation: Installation, url: str) -> Reply:
    if is_in_cluster(url):
        return await exchange_in_cluster(
            installation.kube, url, seconds=PROBE_SECONDS, limit=PROBE_LIMIT_BYTES
        )
    return await asyncio.to_thread(exchange, url, seconds=PROBE_SECONDS, limit=PROBE_LIMIT_BYTES)
