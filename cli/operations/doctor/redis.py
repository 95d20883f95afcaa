"""Redis: does it answer, is it new enough, does it keep what it must keep, and does it let only its users in?

Where REDIS_URL is not set, the console says what it sees of its own Redis.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from ipaddress import ip_address
from urllib.parse import urlsplit

from cli.operations.console_queues import queues_of
from cli.operations.doctor.finding import Finding, Installation, failed, not_checked, ok
from cli.stack.bus import connected_bus
from cli.stack.requests import is_in_cluster
from shared.errors import DovetailError, Unauthorized
from shared.redis.inspection import ServerFacts, lets_everybody_in, server_facts

OLDEST = (6, 2)
MOST_MEMORY_SHARE = 0.9
POLICY = "noeviction"
KEPT = "docs/operating/security.md, What Redis keeps"
REACH = "kubectl port-forward -n dovetail deploy/dovetail-redis 6379, and REDIS_URL, CLUSTER_NAME"


async def redis(installation: Installation) -> AsyncIterator[Finding]:
    """The server by its own words, or by the console's."""
    url = installation.variables.get("REDIS_URL", "")
    if not url:
        async for finding in _by_console(installation):
            yield finding
        return
    try:
        async with connected_bus(url, installation.cluster or "doctor") as bus:
            facts = await server_facts(bus.redis)
    except Unauthorized as error:
        mend = (
            "dovetail secrets prints Secrets with the user operator, who may: set REDIS_URL to it"
        )
        yield not_checked("Redis", f"its user may not ask: {error.message}", mend)
        return
    except DovetailError as error:
        yield failed("Redis answers", error.message, REACH)
        return
    yield ok("Redis answers")
    for finding in findings_of(facts, on_loopback=is_loopback(url)):
        yield finding
    yield await _access(url)


def is_loopback(url: str) -> bool:
    """Whether the server is on this machine alone."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def findings_of(facts: ServerFacts, *, on_loopback: bool) -> list[Finding]:
    """Version, eviction, memory and files. On a loopback address nothing needs to be kept."""
    numbers = tuple(int(part) for part in facts.version.split(".") if part.isdecimal())
    version = ok("Redis version", facts.version)
    if numbers < OLDEST:
        version = failed("Redis version", f"{facts.version} is older than 6.2", "upgrade Redis")
    policy = ok("Redis evicts nothing", facts.policy)
    if facts.policy != POLICY:
        found = f"maxmemory-policy is {facts.policy}: Redis may drop messages and the mirror"
        policy = failed(policy.check, found, f"redis-cli CONFIG SET maxmemory-policy {POLICY}")
    return [version, policy, _memory(facts), _files(facts, on_loopback)]


def _memory(facts: ServerFacts) -> Finding:
    used = f"{facts.used / 2**20:.0f} MiB"
    if not facts.limit:
        return ok("Redis memory", f"{used}, without a limit")
    found = f"{used} of {facts.limit / 2**20:.0f} MiB"
    if facts.used < MOST_MEMORY_SHARE * facts.limit:
        return ok("Redis memory", found)
    return failed(
        "Redis memory", f"{found} is used", "redis-cli CONFIG SET maxmemory, a larger value"
    )


def _files(facts: ServerFacts, on_loopback: bool) -> Finding:
    check = "Redis keeps its data"
    if facts.writes_fail:
        return failed(check, "its last write to disk failed", "free its disk, see its log")
    if facts.persistent:
        return ok(check)
    if on_loopback:
        return ok(check, "it does not, which a local stack needs not")
    found = "neither an append-only file nor snapshots: a restart loses dead letters and counts"
    return failed(check, found, f"redis-cli CONFIG SET appendonly yes ({KEPT})")


async def _access(url: str) -> Finding:
    check = "Redis asks for a password"
    if is_loopback(url):
        return ok(check, "needs none: it is on a loopback address")
    if await lets_everybody_in(url):
        mend = "dovetail secrets, then kubectl -n dovetail rollout restart deployment"
        return failed(check, "it lets everybody in, who could launch and remove machines", mend)
    return ok(check)


async def _by_console(installation: Installation) -> AsyncIterator[Finding]:
    console = installation.services.get("console", "")
    if not is_in_cluster(console):
        yield not_checked("Redis", "REDIS_URL is not set", REACH)
        return
    report = await queues_of(installation.kube, console)
    yield ok("Redis answers", "to the console")
    facts = report.get("server")
    if not facts:
        yield not_checked(
            "Redis server", "the console's user may not ask: its ACL is older", "dovetail secrets"
        )
        return
    for finding in findings_of(ServerFacts(**facts), on_loopback=False):
        yield finding
    yield not_checked("Redis asks for a password", "it cannot be reached from here", REACH)
