"""The five services on a real control plane: processes of their own, each with its ServiceAccount's token; Redis, the
AWS emulator and the kubelets are the local stack's."""

from __future__ import annotations

import contextlib
import json
import random
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from cli.stack.secrets import NAMESPACE
from local.cluster.addons.catalogue import USUAL, chosen
from local.cluster.addons.daemons import daemon_set
from local.stack import Stack
from local.stack_plan import (
    ACCOUNTS,
    HOST,
    KUBELETS,
    PROJECT,
    SERVICES,
    ExistingCluster,
    choose_ports,
    plan_stack,
)
from local.stack_state import FAILED, READY
from local.supervisor import Supervisor
from tests.support.real_cluster.control_plane import ControlPlane
from tests.support.stories.playground import short_settings

START_SECONDS = 300.0
TOKEN_LIFE = "24h"
CLUSTER_NAME = "dovetail-local"


def deploy(plane: ControlPlane) -> str:
    """Apply ``deploy`` and its Secrets as docs/operating/containers.md describes. Returns the output of kubectl."""
    plane.kubectl("apply", "-f", str(PROJECT / "deploy/kubernetes/00-namespace.yaml"))
    plane.kubectl("apply", "-f", str(PROJECT / "deploy/kubernetes/interruption-imds.yaml"))
    printed = subprocess.run(
        [sys.executable, "-m", "cli.main", "secrets", "--cluster-name", CLUSTER_NAME],
        cwd=PROJECT, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=printed.stdout)
    said = plane.kubectl("apply", "-k", str(PROJECT / "deploy"))
    plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    return said


def take_workloads_away(plane: ControlPlane) -> None:
    """The services run as processes of this machine in their place."""
    plane.kubectl("-n", NAMESPACE, "delete", "deployments", "--all", "--wait=false")
    plane.kubectl("-n", "dovetail-agents", "delete", "daemonsets", "--all", "--wait=false")


def create_daemon_sets(plane: ControlPlane) -> None:
    """What runs on every node of a fresh EKS cluster."""
    for addon in chosen(USUAL).values():
        for daemon in addon.daemons:
            plane.kubectl("apply", "-f", "-", stdin=json.dumps(daemon_set(daemon)))


@contextlib.contextmanager
def real_stack(plane: ControlPlane, directory: Path, **extra: Any) -> Iterator[Stack]:
    """A stack on ``plane``, where ``deploy`` was applied. ``extra``: more variables for the services."""
    joined = ExistingCluster(str(plane.kubeconfig), host=HOST)
    settings = replace(
        short_settings(directory, **extra), mirror_key=secrets.token_hex(16), cluster=joined
    )
    _prepare(plane, directory)
    plan = plan_stack(settings, choose_ports(settings, random.Random()))
    supervisor, stack = Supervisor(plan, directory), Stack(directory)
    running = threading.Thread(target=supervisor.run, daemon=True)
    running.start()
    try:
        _await_ready(stack, running)
        yield stack
    finally:
        supervisor.stop()
        running.join()


def _prepare(plane: ControlPlane, directory: Path) -> None:
    for folder in ("logs", "redis"):
        (directory / folder).mkdir()
    plane.write_kubeconfig(directory / "kubeconfig", plane.tokens["administrator"])
    for service in SERVICES:
        account = f"dovetail-{service}"
        asked = ("create", "token", account, f"--duration={TOKEN_LIFE}")
        token = plane.kubectl("-n", NAMESPACE, *asked).strip()
        plane.write_kubeconfig(directory / ACCOUNTS / NAMESPACE / account, token)
    administrator = plane.tokens["administrator"]
    plane.write_kubeconfig(directory / ACCOUNTS / NAMESPACE / KUBELETS, administrator)


def _await_ready(stack: Stack, running: threading.Thread) -> None:
    for _ in range(int(START_SECONDS / 0.2)):
        state = stack.state()
        if state is not None and state.phase == READY:
            return
        assert state is None or state.phase != FAILED, state.message
        running.join(0.2)
        assert running.is_alive(), "the supervisor ended before the stack was ready"
    raise AssertionError(f"the stack is not ready after {START_SECONDS:.0f} s: {stack.state()}")
