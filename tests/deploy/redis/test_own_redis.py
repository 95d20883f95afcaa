"""A Redis of one's own, as docs/operating/helm.md says which work: each on real servers, with the work of every service
under its own user, and through a failover without a restart."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared.errors import ConfigurationError, DovetailError
from shared.redis import streams
from shared.redis.bus import Bus, connect
from shared.redis.bus.connection import call
from shared.redis.bus.places import parse_target
from shared.redis.rights import SERVICES
from tests.deploy.redis.test_manifest import SEVEN
from tests.support.redis.arrangements import PREFIX, Cluster, Watched, cluster, members, watched
from tests.support.redis.certificates import certify
from tests.support.redis.fixture import BINARIES
from tests.support.redis.guarded import ADMIN, PASSWORDS, refused_by
from tests.support.redis.work import bus_at, envelope, follow, work_of
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(not SEVEN, reason="the users' rights need Redis 7.0 or newer")


async def works(bus: Bus) -> None:
    """A publish succeeds, after as many failures as a failover costs. Nothing is opened anew by the caller."""

    async def is_published() -> bool:
        try:
            await bus.publish(streams.LAUNCHES, envelope(f"{random.getrandbits(64):x}"))
        except DovetailError:
            return False
        return True

    await wait_until(is_published, "the bus works again")


class TestCluster:
    @pytest.fixture(params=["plain", pytest.param("tls", marks=pytest.mark.nightly)])
    async def nodes(self, request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
        async with cluster(tmp_path, BINARIES[SEVEN[0]], tls=request.param == "tls") as found:
            yield found

    @pytest.mark.slow
    async def test_every_service_works_and_a_failover_needs_no_restart(
        self, nodes: Cluster
    ) -> None:
        """The first connection leads to any node, as the configuration endpoint of a managed service does."""
        for service in SERVICES:
            await work_of(service, nodes.url(service, random.choice(nodes.others)))
        assert await refused_by(nodes.owner.server.url_of(*ADMIN)) == []
        async with bus_at(nodes.url("scheduler", nodes.replica, *nodes.others)) as bus:
            await works(bus)
            await nodes.fail_over()
            await works(bus)
            await follow(nodes.url("scheduler", nodes.replica))
            assert await nodes.owner.ask("XLEN", f"{PREFIX}{streams.LAUNCHES}") >= 2


class TestSentinel:
    @pytest.fixture
    async def pair(self, tmp_path: Path) -> AsyncIterator[Watched]:
        async with watched(tmp_path, BINARIES[SEVEN[0]]) as found:
            yield found

    @pytest.mark.slow
    async def test_every_service_works_and_a_failover_needs_no_restart(self, pair: Watched) -> None:
        for service in SERVICES:
            await work_of(service, pair.url(service))
        async with bus_at(pair.url("scheduler")) as bus:
            await pair.fail_over()
            await works(bus)
            await follow(pair.url("scheduler"))
            assert await pair.replica.ask("XLEN", f"{PREFIX}{streams.LAUNCHES}") >= 1


@pytest.mark.slow
async def test_a_primary_endpoint_that_moves_needs_no_restart(tmp_path: Path) -> None:
    """A managed service without cluster mode: the former primary refuses writes, and the name leads to the new one."""
    async with members(tmp_path, BINARIES[SEVEN[0]], 2) as (first, second):
        hosts = f"127.0.0.1:{first.port},127.0.0.1:{second.port}"
        async with bus_at(f"redis://scheduler:{PASSWORDS['scheduler']}@{hosts}/0") as bus:
            await works(bus)
            await first.ask("REPLICAOF", "127.0.0.1", str(second.port))
            await works(bus)
            assert await second.ask("XLEN", f"{PREFIX}{streams.LAUNCHES}") >= 1


@pytest.mark.parametrize(
    "url",
    [
        "http://redis:6379",
        "redis://",
        "redis://redis:many",
        "redis://a b:6379",
        "redis+sentinel://a:1,b:2",
        "redis+sentinel://a:1,b:x/service",
        "redis://redis:6379/0?colour=blue",
    ],
)
def test_an_address_that_cannot_be_read_is_refused_in_words(url: str) -> None:
    with pytest.raises(ConfigurationError, match="REDIS_URL cannot be read") as refusal:
        connect(url)
    assert "secret" not in str(refusal.value)


def test_a_password_that_was_not_escaped_is_not_repeated() -> None:
    with pytest.raises(ConfigurationError) as refusal:
        connect("redis://user:sec/ret@redis:6379/0")
    assert "sec" not in str(refusal.value)


async def test_sentinel_has_credentials_and_tls_of_its_own(tmp_path: Path) -> None:
    """What is said of Redis is not said of Sentinel, but for TLS."""
    certify(tmp_path)
    url = (
        f"rediss+sentinel://user:a%40b@one:1,two/service/3?ssl_ca_certs={tmp_path}/ca.crt"
        "&sentinel_username=watcher&sentinel_password=c"
    )
    target = parse_target(url, {})
    assert vars(target.place)["sentinels"] == [("one", 1), ("two", 26379)]
    tls = {"ssl_ca_certs": f"{tmp_path}/ca.crt"}
    said = {"username": "watcher", "password": "c", "ssl": True, **tls}
    assert said.items() <= vars(target.place)["options"].items()
    kept = {name: target.options[name] for name in ("username", "password", "db", *tls)}
    assert kept == {"username": "user", "password": "a@b", "db": 3, **tls}


async def test_without_a_sentinel_the_error_says_so() -> None:
    client = connect("redis+sentinel://127.0.0.1:1/service/0")
    with pytest.raises(DovetailError, match="No master found for 'service'"):
        await call(client, "ping", "PING")
    await client.aclose()
