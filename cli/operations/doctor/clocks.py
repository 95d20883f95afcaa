"""Clocks: of this machine, the API server, Redis and AWS. Leases and signatures go by them.

A header Date has whole seconds, so up to a second more than the difference may be shown.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp

from cli.operations.doctor.finding import Finding, Installation, failed, not_checked, ok
from cli.stack.bus import connected_bus
from shared.errors import DovetailError
from shared.kube.raw_requests import date_of, server_time
from shared.redis.inspection import server_facts

MOST_SECONDS = 5.0
"""A third of the time after which another service may take a Lease."""
AWS_SECONDS = 10.0
MEND = "synchronise the clocks: chronyc tracking"


async def clocks(installation: Installation) -> AsyncIterator[Finding]:
    """One finding per other clock."""
    now = installation.clock.now
    begun = now()
    seen = await server_time(installation.kube.connection)
    yield skew_finding("API server's clock", begun, now(), seen)
    url = installation.variables.get("REDIS_URL", "")
    if url:
        begun = now()
        try:
            async with connected_bus(url, installation.cluster or "doctor") as bus:
                facts = await server_facts(bus.redis)
            yield skew_finding("Redis' clock", begun, now(), facts.seconds)
        except DovetailError as error:
            yield not_checked("Redis' clock", error.message, "see the checks of Redis")
    yield await _aws(installation)


async def _aws(installation: Installation) -> Finding:
    check, variables = "AWS's clock", installation.variables
    region = variables.get("AWS_REGION") or variables.get("AWS_DEFAULT_REGION")
    if not region:
        return not_checked(check, "no region is set", "export AWS_REGION")
    url = variables.get("AWS_ENDPOINT_URL") or f"https://ec2.{region}.amazonaws.com/"
    begun = installation.clock.now()
    try:
        async with (
            aiohttp.ClientSession(
                trust_env=True, timeout=aiohttp.ClientTimeout(total=AWS_SECONDS)
            ) as session,
            session.get(url, allow_redirects=False) as answer,
        ):
            seen = date_of(answer.headers.get("Date", ""))
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return not_checked(check, f"no answer from {url} ({error})", "check the way to AWS")
    return skew_finding(check, begun, installation.clock.now(), seen)


def skew_finding(check: str, begun: float, ended: float, seen: float | None) -> Finding:
    """``seen``: what the other clock showed between ``begun`` and ``ended`` of ours; up to a second was cut off."""
    if seen is None:
        return not_checked(check, "its answer has no date", "compare it by hand")
    difference = max(begun - seen - 1.0, seen - ended, 0.0)
    if difference <= MOST_SECONDS:
        return ok(check, f"{difference:.0f} s off")
    side = "behind" if seen < begun else "ahead of"
    return failed(check, f"it is {difference:.0f} s {side} this machine's", MEND)
