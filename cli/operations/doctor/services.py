"""The services: each is ready, or says why not."""

from __future__ import annotations

from collections.abc import AsyncIterator

from cli.operations.doctor.finding import Finding, Installation, failed, not_checked, ok
from cli.stack.status import service_readiness

HOW = "run it as `kubectl dovetail doctor`, or name the services: DOVETAIL_SCHEDULER_URL and so on"


async def services(installation: Installation) -> AsyncIterator[Finding]:
    """One finding per service."""
    found = await service_readiness(installation.services, installation.kube)
    if not found:
        yield not_checked("services", "no address of a service is known", HOW)
    for name, why in found.items():
        check = f"service {name}"
        yield failed(check, why, f"dovetail logs {name}") if why else ok(check, "ready")
