"""The Redis of deploy/kubernetes with the arguments of its manifest, and the users that `dovetail secrets` prints."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from cli.main import commands
from local.redis_server import redis_version
from shared.errors import ConfigurationError, DovetailError, Unauthorized
from shared.redis import streams
from shared.redis.bus import connect
from shared.redis.bus.connection import call
from shared.redis.mirror import MirrorReader
from shared.redis.rights import AGENT, CONSOLE, SERVICES, SHADOW, USERS
from tests.support.redis.fixture import BINARIES
from tests.support.redis.guarded import guarded_redis
from tests.support.redis.server import RedisServer, free_loopback_port
from tests.support.redis.work import CLOCK, follow, work_of
from tests.support.texts.documents import documents
from tests.support.waiting import wait_until

PROJECT = Path(__file__).resolve().parents[3]
(DEPLOYMENT,) = [
    one
    for one in documents(PROJECT / "deploy" / "kubernetes" / "redis.yaml")
    if one["kind"] == "Deployment"
]
POD: dict[str, Any] = DEPLOYMENT["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
ARGUMENTS: list[str] = CONTAINER["args"]
SEVEN = [version for version, binary in BINARIES.items() if redis_version(binary) >= (7,)]


def option(name: str) -> str:
    return ARGUMENTS[ARGUMENTS.index(name) + 1]


def mounted(volume: str) -> str:
    (found,) = [one for one in CONTAINER["volumeMounts"] if one["name"] == volume]
    return str(found["mountPath"])


def without_acl_file() -> tuple[str, ...]:
    """What a test may keep as it is: the users' file and the data are elsewhere, where no volume is mounted."""
    elsewhere = {ARGUMENTS.index(name) for name in ("--aclfile", "--dir")}
    left = (one for at, one in enumerate(ARGUMENTS) if not {at, at - 1} & elsewhere)
    return tuple(left)


def test_its_users_come_from_the_secret_that_the_command_prints() -> None:
    (mount,) = [one for one in CONTAINER["volumeMounts"] if one["name"] == "users"]
    (volume,) = [one for one in POD["volumes"] if one["name"] == "users"]
    path = Path(option("--aclfile"))
    assert (mount["mountPath"], mount["readOnly"]) == (str(path.parent), True)
    printed = secrets()
    assert path.name in printed[volume["secret"]["secretName"]]["stringData"]


def test_it_is_protected_and_keeps_what_it_is_told() -> None:
    assert option("--protected-mode") == "yes"
    assert (option("--appendonly"), option("--appendfsync")) == ("yes", "everysec")
    assert (mounted("data"), option("--dir")) == ("/data", "/data")
    assert option("--maxmemory-policy") == "noeviction"


def secrets(*options: str) -> dict[str, dict[str, Any]]:
    """What `dovetail secrets` prints, by name."""
    done = CliRunner().invoke(commands, ["secrets", "--cluster-name", "guarded", *options])
    assert done.exit_code == 0, done.output
    return {one["metadata"]["name"]: one for one in yaml.safe_load_all(done.output)}


def test_every_run_makes_new_passwords_and_the_file_has_none_of_them() -> None:
    first, second = secrets(), secrets()
    names = {f"dovetail-redis-{user}" for user in USERS}
    assert first.keys() == {"dovetail-redis-acl", *names}
    users = first["dovetail-redis-acl"]["stringData"]["users.acl"]
    for name in names:
        address = first[name]["stringData"]["REDIS_URL"]
        assert address != second[name]["stringData"]["REDIS_URL"]
        assert address.split(":")[2].split("@")[0] not in users


def test_the_mirror_s_key_is_one_and_goes_to_those_who_write_or_read_the_mirror() -> None:
    printed = secrets()
    keys = {name: one["stringData"].get("MIRROR_KEY") for name, one in printed.items()}
    holders = {name.removeprefix("dovetail-redis-") for name, key in keys.items() if key}
    assert holders == {"watcher", "scheduler", "interruption", CONSOLE, SHADOW}
    assert len({*keys.values()} - {None}) == 1
    assert printed[f"dovetail-redis-{AGENT}"]["metadata"]["namespace"] == "dovetail-agents"


def test_tls_is_in_the_address() -> None:
    address = secrets("--tls", "--host", "redis.example.com:6380")["dovetail-redis-watcher"]
    url = address["stringData"]["REDIS_URL"]
    assert url.startswith("rediss://watcher:")
    assert url.endswith("@redis.example.com:6380/0?ssl_ca_certs=/etc/dovetail/redis-ca/ca.crt")
    connect(url)


def test_a_name_that_cannot_be_a_prefix_is_refused_in_words() -> None:
    done = CliRunner().invoke(commands, ["secrets", "--cluster-name", "a b"])
    assert isinstance(done.exception, ConfigurationError)
    assert "CLUSTER_NAME" in str(done.exception)


@pytest.fixture(scope="module", params=sorted(BINARIES))
def shipped(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """With every other argument of the manifest."""
    folder, binary = tmp_path_factory.mktemp("shipped"), BINARIES[request.param]
    with guarded_redis(folder, binary, without_acl_file()) as redis:
        yield redis


PREFIX = "dovetail:{guarded}:"
FORGERIES = (
    ("HSET", f"{PREFIX}mirror:pods", "default/forged-1", "{}"),
    ("XADD", f"{PREFIX}{streams.CLUSTER}", "*", "op", "reset", "generation", "1"),
)


async def test_a_picture_of_pods_that_do_not_exist_cannot_be_forged(shipped: Any) -> None:
    """20 entries by HSET and one XADD bought 304 vCPU: by nobody, a stranger and every other service of ours."""
    await work_of("watcher", shipped.url("watcher"))
    reader = MirrorReader(shipped.url("scheduler"), PREFIX, clock=CLOCK, block_milliseconds=20)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(reader.run(stop))
        await wait_until(lambda: reader.complete, "the mirror is loaded")
        before, loads = {kind: {**held} for kind, held in reader.kinds.items()}, reader.loads
        urls = [shipped.server.url, shipped.server.url_of("watcher", "guessed")]
        # Redis 6.2 cannot keep from writing to a stream who reads it; the command HSET it can.
        others = [one for one in SERVICES if one != "watcher"]
        for url in [*urls, *map(shipped.url, others)]:
            tried = FORGERIES if shipped.selectors or url in urls else FORGERIES[:1]
            await refused(url, tried)
        turned = reader.last_progress
        await wait_until(lambda: reader.last_progress > turned, "the reader has looked again")
        stop.set()
    assert (reader.kinds, reader.loads) == (before, loads)


async def refused(url: str, commands: tuple[tuple[str, ...], ...]) -> None:
    client = connect(url)
    try:
        for command in commands:
            with pytest.raises(Unauthorized):
                await call(client, "forge", *command)
    finally:
        await client.aclose()


async def test_its_readiness_probe_gets_its_answer(shipped: Any) -> None:
    """The probe's words, said over the wire: this machine may have no redis-cli."""
    shell, flag, script = CONTAINER["readinessProbe"]["exec"]["command"]
    assert (shell, flag) == ("sh", "-c")
    words = shlex.split(script.partition("|")[0])
    user, password = words[words.index("--user") + 1], words[words.index("--pass") + 1]
    client = connect(shipped.server.url_of(user, password))
    assert await call(client, "probe", words[-1].upper()) == b"PONG"
    await client.aclose()


@pytest.mark.slow
@pytest.mark.skipif(not SEVEN, reason="the shipped users need Redis 7.0 or newer")
async def test_the_printed_users_are_read_by_the_printed_image_s_redis(tmp_path: Path) -> None:
    """The command's own file and passwords, from its output to a service at work."""
    printed = secrets("--host", "127.0.0.1:1")
    file = tmp_path / "users.acl"
    file.write_text(printed["dovetail-redis-acl"]["stringData"]["users.acl"])
    arguments = (*without_acl_file(), "--aclfile", str(file))
    url = printed["dovetail-redis-operator"]["stringData"]["REDIS_URL"]
    file.write_text(file.read_text() + "user starter on >x ~* +ping +info\n")
    server = RedisServer(
        tmp_path, binary=BINARIES[SEVEN[0]], extra_arguments=arguments,
        port=free_loopback_port(), login=("starter", "x"),
    )  # fmt: skip
    async with server:
        for service in ("watcher", "scheduler"):
            url = printed[f"dovetail-redis-{service}"]["stringData"]["REDIS_URL"]
            await work_of(service, url.replace("127.0.0.1:1/", f"127.0.0.1:{server.port}/"))
        await follow(url.replace("127.0.0.1:1/", f"127.0.0.1:{server.port}/"))


def test_without_its_users_it_does_not_start(tmp_path: Path) -> None:
    """Nothing runs open because a Secret was forgotten."""
    missing = RedisServer(tmp_path, port=free_loopback_port(), extra_arguments=ARGUMENTS)
    with pytest.raises(DovetailError, match="did not answer"):
        asyncio.run(missing.start())
