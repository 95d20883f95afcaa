"""A real Kubernetes control plane for tests, stopped by the ids of its own processes."""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from local.process import identify, last_lines, spawn, terminate
from local.stack_plan import free_ports
from tests.support.real_cluster import parts
from tests.support.real_cluster.parts import HOST, USERS, Files, Ports

START_SECONDS = 120.0
STOP_SECONDS = 15.0
LOOK_SECONDS = 0.2
DIRECT = urllib.request.ProxyHandler({})


@dataclass(frozen=True)
class ControlPlane:
    """One that runs. ``tokens``: by user."""

    url: str
    files: Files
    tokens: dict[str, str]

    @property
    def kubeconfig(self) -> Path:
        """Of the administrator."""
        return self.files.directory / "administrator"

    def write_kubeconfig(self, path: Path, token: str) -> None:
        """For who has this token."""
        cluster = {"server": self.url, "certificate-authority": str(self.files.authority)}
        name = "real"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(config))

    def kubectl(self, *words: str, stdin: str = "", check: bool = True) -> str:
        """What kubectl prints as the administrator; its errors too unless it must succeed (``check``)."""
        done = subprocess.run(
            ["kubectl", *words],
            env={
                "KUBECONFIG": str(self.kubeconfig),
                "HOME": str(self.files.directory),
                "PATH": os.environ["PATH"],
                "NO_PROXY": HOST,
            },
            input=stdin,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout if check else done.stdout + done.stderr


@contextlib.contextmanager
def control_plane(directory: Path) -> Iterator[ControlPlane]:
    """etcd, API server, controller manager and scheduler for the time of the block."""
    ports = Ports(*free_ports(5, random.Random()))
    plane = ControlPlane(
        f"https://{HOST}:{ports.api}",
        Files(directory),
        {user: secrets.token_urlsafe(24) for user in USERS},
    )
    parts.write_inputs(plane.files, plane.tokens)
    for user, token in plane.tokens.items():
        plane.write_kubeconfig(directory / user, token)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_running(directory, "etcd", parts.etcd(plane.files, ports)))
        command = parts.api_server(plane.files, ports)
        with_api = stack.enter_context(_running(directory, "api-server", command))
        _await(lambda: _healthy(plane, plane.url), with_api, directory / "api-server.log")
        for name, port, command in (
            ("controllers", ports.controllers, parts.controller_manager(plane.files, ports)),
            ("scheduler", ports.scheduler, parts.scheduler(plane.files, ports)),
        ):
            process = stack.enter_context(_running(directory, name, command))
            url = f"https://{HOST}:{port}"
            _await(partial(_healthy, None, url), process, directory / f"{name}.log")
        yield plane


@contextlib.contextmanager
def _running(directory: Path, name: str, command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    process = spawn(
        command,
        environment={"PATH": os.environ["PATH"], "HOME": str(directory)},
        log=directory / f"{name}.log",
        directory=directory,
        die_with_parent=True,
    )
    identity = identify(process.pid)
    try:
        yield process
    finally:
        if identity is not None:
            terminate([identity], grace_seconds=STOP_SECONDS, reap=process.poll)
        process.wait()


def _await(ready: Callable[[], bool], process: subprocess.Popen[Any], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not ready():
        end = "\n".join(last_lines(log, 8))
        assert process.poll() is None, f"{log.stem} ended with code {process.returncode}:\n{end}"
        assert time.monotonic() < deadline, f"{log.stem} is not ready in {START_SECONDS} s:\n{end}"
        time.sleep(LOOK_SECONDS)


def _healthy(plane: ControlPlane | None, url: str) -> bool:
    """With ``plane`` its API server, by its own certificate; else a program whose certificate nobody knows."""
    context = ssl.create_default_context()
    headers = {}
    path = "/healthz"
    try:
        if plane is None:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        else:
            context.load_verify_locations(plane.files.authority)
            headers = {"Authorization": f"Bearer {plane.tokens['administrator']}"}
            path = "/readyz"
        opener = urllib.request.build_opener(DIRECT, urllib.request.HTTPSHandler(context=context))
        with opener.open(urllib.request.Request(url + path, headers=headers), timeout=5):
            return True
    except (OSError, urllib.error.URLError):
        return False
