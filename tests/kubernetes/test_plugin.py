"""``kubectl dovetail`` through a real API server's proxy: with the documents' roles, and a token for Dovetail alone.

A real server passes nothing on to loopback addresses, so the program behind the Service listens on another address of
this machine, and asks for a token.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from services.scheduler.status.access import admission
from shared.concurrency.clock import SystemClock
from shared.kube.token_access import TokenAccess
from shared.metrics import Metrics
from shared.runtime.services import Answer, Question, Service, json_answer
from shared.runtime.status import Listener, mount, server_loop
from tests.cli.kubectl.conftest import GROUP, PAGE
from tests.support.cluster.fixture import connect
from tests.support.network.status_server import free_port
from tests.support.real_cluster.control_plane import ControlPlane
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kubernetes
LABELS = {"name": "dovetail", "component": "scheduler"}


def own_addresses() -> Iterator[str]:
    for addresses in psutil.net_if_addrs().values():
        for one in addresses:
            if one.family is socket.AF_INET and not one.address.startswith(("127.", "169.254.")):
                yield one.address


async def test_a_question_through_a_real_proxy(deployed: ControlPlane, tmp_path: Path) -> None:
    address = next(own_addresses(), None)
    if address is None:
        pytest.skip("this machine has only loopback addresses, to which a real proxy sends nothing")
    deployed.kubectl("create", "namespace", "ops")
    deployed.kubectl("create", "serviceaccount", "ann", "-n", "ops")
    text = PAGE.read_text().partition("```yaml\n")[2].partition("```")[0]
    deployed.kubectl("apply", "-f", "-", stdin=text.replace("dovetail-users", GROUP))
    token = deployed.kubectl("create", "token", "ann", "-n", "ops").strip()
    deployed.write_kubeconfig(tmp_path / "ann", token)
    asked: list[bytes] = []

    async def answer(body: bytes, _query: object) -> Answer:
        asked.append(body)
        return json_answer(200, {"pod": "shop/web", "state": "placeable"})

    kube = await connect(deployed.kubeconfig)
    admit = admission("authenticated", "/explain", TokenAccess(kube, SystemClock()))
    question = Question("/explain", "Why", answer, 4096, admit=admit)
    service = Service("scheduler", [], Metrics("scheduler"), dict, questions=[question])
    port, stop = free_port(), asyncio.Event()
    loop = server_loop(Listener(mount([service], SystemClock()), address, port))
    stand_in(deployed, address, port)
    async with asyncio.TaskGroup() as group:
        group.create_task(loop.run(stop))
        await wait_until(partial(asyncio.to_thread, reaches, deployed), "the server's proxy works")
        process = await asyncio.create_subprocess_exec(
            str(Path(sys.executable).with_name("kubectl-dovetail")), "explain", "pod", "shop/web",
            env={"PATH": "/usr/bin:/bin", "KUBECONFIG": str(tmp_path / "ann"), "NO_PROXY": "127.0.0.1"},
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, errors = await process.communicate()
        stop.set()
    await kube.close()
    assert (process.returncode, errors.decode()) == (0, "")
    assert "The next round of the scheduler places it" in out.decode()
    assert list(map(json.loads, asked)) == [{"pod": "shop/web"}]


def reaches(plane: ControlPlane) -> bool:
    """A controller notes the addresses of ready pods."""
    path = "/api/v1/namespaces/dovetail/services/dovetail-scheduler:status/proxy/healthz"
    try:
        plane.kubectl("get", "--raw", path)
    except AssertionError:
        return False
    return True


def stand_in(plane: ControlPlane, address: str, port: int) -> None:
    """A pod of the Service at this address: a real server passes nothing on to an address that is no pod's."""
    safe = {
        "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip
    container = {
        "name": "scheduler", "image": "none", "securityContext": safe,
        "ports": [{"name": "status", "containerPort": port}],
    }  # fmt: skip
    labels = {f"app.kubernetes.io/{key}": value for key, value in LABELS.items()}
    metadata = {"name": "stand-in", "namespace": "dovetail", "labels": labels}
    spec = {"nodeName": "nowhere", "containers": [container]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    plane.kubectl("apply", "-f", "-", stdin=json.dumps(pod))
    ready = [{"type": "Ready", "status": "True"}]
    status = {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": ready,
    }
    words = ("-n", "dovetail", "--subresource=status", "--type=merge", "-p")
    plane.kubectl("patch", "pod", "stand-in", *words, json.dumps({"status": status}))
