"""Users of ElastiCache and MemoryDB with IAM authentication: tokens that sign themselves, on a real Redis with TLS."""

from __future__ import annotations

import datetime
import hashlib
import hmac
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl, quote

import pytest
from botocore import auth

from local.redis_server import redis_version
from shared.errors import ConfigurationError, Unauthorized
from shared.redis.bus.connection import call, connect
from shared.redis.iam_login import IamUser, token
from tests.support.redis.certificates import certify
from tests.support.redis.fixture import BINARIES
from tests.support.redis.server import RedisServer, free_loopback_port

NOON = datetime.datetime(2026, 11, 26, 12, tzinfo=datetime.UTC)
KEYS = SimpleNamespace(access_key="AKIDEXAMPLE", secret_key="a-secret", token="a-session")
USER = IamUser("dovetail", "my-cache", "eu-central-1")
OPTIONS = "iam_cache=My-Cache&iam_region=eu-central-1"
SEVEN = [binary for binary in BINARIES.values() if redis_version(binary) >= (7,)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """``clock.now`` is when a token is signed."""
    found = SimpleNamespace(now=NOON)
    monkeypatch.setattr(auth, "get_current_datetime", lambda *_: found.now)
    return found


def signature(of: str, secret: str) -> str:
    """What Signature Version 4 says for a token, worked out from AWS' description of it."""
    host, _, query = of.partition("/?")
    words = dict(parse_qsl(query))
    day, region, service, end = words["X-Amz-Credential"].split("/")[1:]
    rest = sorted((name, value) for name, value in words.items() if name != "X-Amz-Signature")
    canonical = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in rest)
    empty = hashlib.sha256(b"").hexdigest()
    request = f"GET\n/\n{canonical}\nhost:{host}\n\nhost\n{empty}"
    hashed = hashlib.sha256(request.encode()).hexdigest()
    scope = f"{day}/{region}/{service}/{end}"
    to_sign = f"AWS4-HMAC-SHA256\n{words['X-Amz-Date']}\n{scope}\n{hashed}"
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, end, to_sign):
        key = hmac.digest(key, part.encode(), "sha256")
    return key.hex()


@pytest.mark.parametrize(
    "user",
    [USER, IamUser("dovetail", "my-cache", "eu-central-1", "memorydb")],
    ids=lambda user: user.service,
)
def test_a_token_is_a_request_that_the_role_has_signed(user: IamUser, clock: Any) -> None:
    made = token(user, KEYS)
    words = dict(parse_qsl(made.partition("?")[2]))
    assert made.startswith("my-cache/?Action=connect&User=dovetail&")
    assert (
        words["X-Amz-Credential"]
        == f"AKIDEXAMPLE/20261126/eu-central-1/{user.service}/aws4_request"
    )
    assert (words["X-Amz-Date"], words["X-Amz-Expires"]) == ("20261126T120000Z", "900")
    assert words["X-Amz-Security-Token"] == "a-session"
    assert words["X-Amz-Signature"] == signature(made, "a-secret")


def test_a_serverless_cache_is_named_as_one(clock: Any) -> None:
    made = token(IamUser("dovetail", "my-cache", "eu-central-1", serverless=True), KEYS)
    assert "&ResourceType=ServerlessCache&" in made
    assert dict(parse_qsl(made))["X-Amz-Signature"] == signature(made, "a-secret")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[tuple[RedisServer, str]]:
    """A Redis with TLS, and the address of the user, to whom only the password is missing."""
    if not SEVEN:
        pytest.skip("needs a Redis 7 with TLS")
    certify(tmp_path)
    port = free_loopback_port()
    arguments = ["--tls-port", str(port), "--tls-auth-clients", "no"]
    for name, file in (("cert", "tls.crt"), ("key", "tls.key"), ("ca-cert", "ca.crt")):
        arguments += [f"--tls-{name}-file", str(tmp_path / file)]
    async with RedisServer(tmp_path, binary=SEVEN[0], extra_arguments=arguments) as one:
        yield one, f"rediss://dovetail@127.0.0.1:{port}/0?ssl_ca_certs={tmp_path}/ca.crt&{OPTIONS}"


async def allow(server: RedisServer, password: str) -> None:
    """As ElastiCache does it for a token that it has checked."""
    admin = connect(server.url)
    words = ("resetpass", f">{password}", "on", "~*", "+@all")
    await call(admin, "set the user", "ACL", "SETUSER", "dovetail", *words)
    await admin.aclose()


async def test_each_connection_has_a_token_of_its_own(
    server: tuple[RedisServer, str], clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("ACCESS_KEY_ID", KEYS.access_key),
        ("SECRET_ACCESS_KEY", KEYS.secret_key),
        ("SESSION_TOKEN", KEYS.token),
    ):
        monkeypatch.setenv(f"AWS_{name}", value)
    redis, url = server
    client = connect(url, connections=1)
    await allow(redis, token(USER, KEYS))
    assert await call(client, "ask who", "ACL", "WHOAMI") == b"dovetail"
    clock.now = NOON + datetime.timedelta(hours=1)
    assert await call(client, "ask", "PING") == b"PONG", "a connection that is open stays open"
    await client.connection_pool.disconnect()
    with pytest.raises(Unauthorized):
        await call(client, "ask", "PING")
    await allow(redis, token(USER, KEYS))
    assert await call(client, "ask", "PING") == b"PONG"
    await client.aclose()


async def test_without_credentials_the_error_says_what_is_missing(
    server: tuple[RedisServer, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    client = connect(server[1])
    with pytest.raises(Unauthorized, match=r"no AWS credentials .* elasticache:Connect"):
        await call(client, "ask", "PING")
    await client.aclose()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (f"redis://dovetail@cache/0?{OPTIONS}", "needs rediss://"),
        (f"rediss://cache/0?{OPTIONS}", "rediss://USER@HOST"),
        (f"rediss://dovetail:secret@cache/0?{OPTIONS}", "a user without password"),
        ("rediss://dovetail@cache/0?iam_cache=a", "iam_region"),
        (f"rediss://dovetail@cache/0?{OPTIONS}&iam_service=s3", "elasticache or memorydb"),
    ],
)
def test_an_address_with_which_nobody_can_log_in_is_refused(url: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as refused:
        connect(url)
    assert "secret" not in str(refused.value)
