"""A stack on a cluster that runs already, started and stopped by the commands that a user types."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

from local.process import identify, last_lines, spawn, terminate
from local.stack import ExistingCluster, Stack
from local.stack_plan import PROJECT, clean_environment
from shared.concurrency.clock import SystemClock
from shared.kube.client import Kube
from tests.support.stories.playground import short_settings
from tests.support.waiting import wait_until

SECONDS = 120


def dovetail(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command and wait for its end."""
    return subprocess.run(
        [sys.executable, "-m", "cli.main", *words],
        cwd=PROJECT, env=clean_environment(os.environ), capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip


@asynccontextmanager
async def embedded_cluster(folder: Path) -> AsyncIterator[Path]:
    """The kubeconfig of an embedded cluster in a process of its own, which knows no AWS: nobody plays its nodes."""
    kubeconfig, log = folder / "kubeconfig", folder / "log"
    own = {"KUBECONFIG_OUT": str(kubeconfig), "FIXED_NODES": "0"}
    process = spawn(
        [sys.executable, "-m", "local.cluster"],
        environment=clean_environment(os.environ) | own,
        log=log,
        directory=PROJECT,
        die_with_parent=True,
    )
    identity = identify(process.pid)
    assert identity is not None
    try:
        await wait_until(kubeconfig.exists, "a cluster", show=lambda: last_lines(log, 8))
        yield kubeconfig
    finally:
        terminate([identity], grace_seconds=10, reap=process.poll)
        process.wait()


@asynccontextmanager
async def joined_stack(kubeconfig: Path, directory: Path) -> AsyncIterator[Stack]:
    """Run all services under their own ServiceAccounts, with the short durations of the tests."""
    stack = Stack(directory)
    settings = replace(short_settings(stack.directory), cluster=ExistingCluster(str(kubeconfig)))
    await asyncio.to_thread(stack.start, settings, detach=True)
    try:
        yield stack
    finally:
        await asyncio.to_thread(stack.stop)


async def administrator(kubeconfig: Path) -> Kube:
    """A client with the rights of the kubeconfig's user. Close it."""
    return await Kube.connect(
        str(kubeconfig), clock=SystemClock(), random=Random(), user_agent="dovetail-tests"
    )
