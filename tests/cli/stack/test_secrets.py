"""``dovetail secrets``: one Secret for the server, one per user, and passwords that are never the same."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from cli.main import commands
from cli.stack.secrets import (
    AGENTS_NAMESPACE,
    CA_FILE,
    MIRROR_KEY_HOLDERS,
    NAMESPACE,
    RedisAddress,
    documents,
)
from shared.errors import ConfigurationError
from shared.redis.bus import connect
from shared.redis.rights import AGENT, USERS

PASSWORDS = {user: f"password-of-{user}" for user in USERS}


def made(tls: bool = False) -> dict[str, Any]:
    """The Secrets by name, without their common prefix."""
    found = documents("blue", PASSWORDS, "the-key", RedisAddress("redis:6379", tls))
    return {one["metadata"]["name"].removeprefix("dovetail-redis-"): one for one in found}


def test_every_user_gets_an_address_with_its_password() -> None:
    secrets = made()
    assert list(secrets) == ["acl", *USERS]
    addresses = {user: secrets[user]["stringData"]["REDIS_URL"] for user in USERS}
    assert addresses == {
        user: f"redis://{user}:{PASSWORDS[user]}@redis:6379/0" for user in PASSWORDS
    }


def test_the_server_knows_digests_alone() -> None:
    (rights,) = made()["acl"]["stringData"].values()
    assert [user for user in USERS if f"user {user} " not in rights] == []
    assert [word for word in PASSWORDS.values() if word in rights] == []


def test_only_those_that_use_the_mirror_have_its_key() -> None:
    holders = {name for name, one in made().items() if "MIRROR_KEY" in one["stringData"]}
    assert holders == set(MIRROR_KEY_HOLDERS)


def test_the_agent_on_nodes_has_a_namespace_of_its_own() -> None:
    places = {name: one["metadata"]["namespace"] for name, one in made().items()}
    assert places.pop(AGENT) == AGENTS_NAMESPACE
    assert set(places.values()) == {NAMESPACE}


def test_with_tls_the_address_names_the_authority() -> None:
    address = made(tls=True)["watcher"]["stringData"]["REDIS_URL"]
    assert address.startswith("rediss://watcher:")
    assert address.endswith(f"?ssl_ca_certs={CA_FILE}")


@pytest.mark.parametrize("options", [[], ["--tls", "--host", "redis.example:6380"]])
def test_what_is_printed_can_be_applied_and_is_new_each_time(options: list[str]) -> None:
    words = ["secrets", "--cluster-name", "blue", *options]
    first, second = (CliRunner().invoke(commands, words).stdout for _ in range(2))
    kinds = [(one["kind"], one["type"]) for one in yaml.safe_load_all(first)]
    assert kinds == [("Secret", "Opaque")] * (1 + len(USERS))
    assert ("rediss://" in first) is bool(options)
    assert first != second


def printed(*options: str) -> dict[str, Any]:
    done = CliRunner().invoke(commands, ["secrets", "--cluster-name", "blue", *options])
    return {one["metadata"]["name"]: one for one in yaml.safe_load_all(done.stdout)}


def test_without_agents_nothing_is_for_a_namespace_that_is_not_there() -> None:
    found = printed("--namespace", "blue", "--agents-namespace", "")
    assert {one["metadata"]["namespace"] for one in found.values()} == {"blue"}
    assert f"dovetail-redis-{AGENT}" not in found
    address = found["dovetail-redis-watcher"]["stringData"]["REDIS_URL"]
    assert address.endswith("@dovetail-redis.blue.svc:6379/0")


UNREADABLE = [
    *(
        "redis:port",
        "redis:70000",
        "redis:0",
        "redis:",
        "::1",
        "a b",
        " redis",
        "redis:6379\n",
        "a,,b",
    ),
    *("user@redis", "redis/1", "redis?db=1", "redis#1", "-redis"),
]


@pytest.mark.parametrize("host", UNREADABLE)
@pytest.mark.parametrize("more", [(), ("--sentinel", "primary")], ids=["redis", "sentinel"])
def test_a_host_that_services_could_not_read_is_refused(host: str, more: tuple[str, ...]) -> None:
    words = ["secrets", "--cluster-name", "blue", "--host", host, *more]
    done = CliRunner().invoke(commands, words)
    assert isinstance(done.exception, ConfigurationError)
    assert f"--host {host!r}: give HOST:PORT" in done.exception.message
    assert done.stdout == ""


def test_an_address_of_sentinel_is_one_that_services_read() -> None:
    found = printed("--host", "one:26379,two:26379", "--sentinel", "primary", "--tls")
    address = found["dovetail-redis-watcher"]["stringData"]["REDIS_URL"]
    assert address.startswith("rediss+sentinel://watcher:")
    assert f"@one:26379,two:26379/primary/0?ssl_ca_certs={CA_FILE}" in address
    connect(address)


@pytest.mark.parametrize(
    "host", ["redis", "10.0.0.7:6379", "[::1]:6379", "redis_1:6379", "a.b.", "a:1,b:2"]
)
def test_names_and_addresses_of_every_kind_are_taken(host: str) -> None:
    address = printed("--host", host)["dovetail-redis-watcher"]["stringData"]["REDIS_URL"]
    assert address.endswith(f"@{host}/0")


@pytest.mark.parametrize("name", ["Foo", "a b", "a_b", "a.b", "-a", "a-", "a" * 64, "a\n"])
@pytest.mark.parametrize("option", ["--namespace", "--agents-namespace"])
def test_a_namespace_that_kubernetes_refuses_is_refused(option: str, name: str) -> None:
    done = CliRunner().invoke(commands, ["secrets", "--cluster-name", "blue", option, name])
    assert isinstance(done.exception, ConfigurationError)
    assert f"{option} {name!r}: give the name of a namespace" in done.exception.message
    assert done.stdout == ""


def test_an_empty_namespace_is_refused() -> None:
    done = CliRunner().invoke(commands, ["secrets", "--cluster-name", "blue", "--namespace", ""])
    assert isinstance(done.exception, ConfigurationError)
    assert "--namespace ''" in done.exception.message


@pytest.mark.parametrize("name", ["a b", "a/b", "a?b"])
def test_a_name_that_sentinel_cannot_have_is_refused(name: str) -> None:
    words = ["secrets", "--cluster-name", "blue", "--host", "one:26379", "--sentinel", name]
    done = CliRunner().invoke(commands, words)
    assert isinstance(done.exception, ConfigurationError)
    assert f"--sentinel {name!r}: give the name" in done.exception.message


@pytest.mark.parametrize("name", ["", "*", "blue-?", "[a-z]", "a\\", "a\tb", "a b", "a" * 101])
def test_a_name_that_is_no_plain_part_of_a_pattern_is_refused(name: str) -> None:
    """The users' rights are patterns of keys: * would open those of every cluster in this Redis."""
    done = CliRunner().invoke(commands, ["secrets", "--cluster-name", name])
    assert isinstance(done.exception, ConfigurationError)
    assert done.exception.message.startswith("CLUSTER_NAME ")
