"""deploy/redis-tls: its own arguments, on a real Redis, with an address that `dovetail secrets --tls` prints."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared.errors import Unreachable
from shared.redis.bus import connect
from shared.redis.bus.connection import call
from tests.deploy.redis.test_manifest import PROJECT, SEVEN, secrets
from tests.support.cluster.kubectl import NEEDS_KUBECTL
from tests.support.redis.certificates import certify
from tests.support.redis.fixture import BINARIES
from tests.support.redis.guarded import ADMIN
from tests.support.redis.server import RedisServer, free_loopback_port

MOUNTED = "/etc/dovetail/redis-tls"
CA_OF_SERVICES = "/etc/dovetail/redis-ca/ca.crt"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The Deployments as kubectl makes them, by name."""
    folder = tmp_path_factory.mktemp("overlay")
    shutil.copytree(PROJECT / "deploy", folder / "deploy")
    overlay = {"resources": ["deploy"], "components": ["deploy/redis-tls"]}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    done = subprocess.run(
        ["kubectl", "kustomize", folder], capture_output=True, text=True, check=True
    )
    found = (one for one in yaml.safe_load_all(done.stdout) if one["kind"] == "Deployment")
    return {one["metadata"]["name"]: one["spec"]["template"]["spec"] for one in found}


@NEEDS_KUBECTL
def test_services_are_given_the_authority_where_their_address_looks_for_it(
    built: dict[str, dict[str, Any]],
) -> None:
    address = secrets("--tls")["dovetail-redis-watcher"]["stringData"]["REDIS_URL"]
    assert address.endswith(f"ssl_ca_certs={CA_OF_SERVICES}")
    for name, pod in built.items():
        (container,) = pod["containers"]
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert {*mounts} == {volume["name"] for volume in pod["volumes"]}
        if name != "dovetail-redis":
            assert mounts["redis-ca"] == str(Path(CA_OF_SERVICES).parent)


@pytest.mark.slow
@NEEDS_KUBECTL
@pytest.mark.skipif(not SEVEN, reason="the shipped Redis is 7.0 or newer, with TLS")
async def test_redis_speaks_tls_to_who_trusts_its_authority(
    built: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    certify(tmp_path)
    printed = secrets("--tls", "--host", "127.0.0.1:1")
    users = printed["dovetail-redis-acl"]["stringData"]["users.acl"]
    (tmp_path / "users.acl").write_text(f"{users}user {ADMIN[0]} on >{ADMIN[1]} ~* +@all\n")
    arguments = [
        one.replace(MOUNTED, str(tmp_path))
        .replace("/etc/dovetail/users.acl", f"{tmp_path}/users.acl")
        .replace("/data", str(tmp_path))
        for one in built["dovetail-redis"]["containers"][0]["args"]
    ]
    plain, port = arguments.index("--port"), free_loopback_port()
    assert arguments[plain + 1] == "0"
    del arguments[plain : plain + 2]  # the test asks there whether it runs
    arguments[arguments.index("--tls-port") + 1] = str(port)
    server = RedisServer(
        tmp_path, binary=BINARIES[SEVEN[0]], extra_arguments=arguments, login=ADMIN
    )
    url = printed["dovetail-redis-watcher"]["stringData"]["REDIS_URL"].replace(
        "127.0.0.1:1/", f"127.0.0.1:{port}/"
    )
    async with server:
        assert await ping(url.replace(CA_OF_SERVICES, f"{tmp_path}/ca.crt")) == b"PONG"
        certify(tmp_path / "other")
        for stranger in (f"{tmp_path}/other/ca.crt", None):
            with pytest.raises(Unreachable):
                await ping(url.replace(CA_OF_SERVICES, stranger) if stranger else plainly(url))


def plainly(url: str) -> str:
    return url.replace("rediss://", "redis://").partition("?")[0]


async def ping(url: str) -> Any:
    client = connect(url)
    try:
        return await call(client, "ping", "PING")
    finally:
        await client.aclose()
