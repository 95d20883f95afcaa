"""The real kubectl against an embedded API server: the one on PATH, and an old one that ``KUBECTL_OLD`` names.

``.ci/run`` gets both. Where one is missing, its tests say how to get it and are skipped.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from local.cluster.api.listening import listen
from local.cluster.api.server import ApiServer
from local.cluster.kubeconfig import write_kubeconfig
from local.cluster.storage.store import Store

OLD = "KUBECTL_OLD"
NEWEST_PROGRAM, OLD_PROGRAM = "kubectl", "old kubectl"
PROGRAMS = (NEWEST_PROGRAM, OLD_PROGRAM)
"""Which one a test runs: parameters of the fixtures that give a ``Kubectl``."""
NEEDS_KUBECTL = pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="kubectl is not installed"
)


def program_or_skip(which: str) -> str:
    """The path of one of ``PROGRAMS``. Skips the test where it is not on this machine, and says how it comes there."""
    if which == NEWEST_PROGRAM:
        found = shutil.which("kubectl")
        return found or pytest.skip("kubectl is not on PATH; install the newest you can get")
    path = os.environ.get(OLD)
    if not path:
        pytest.skip(
            f"{OLD} is not set: the path of kubectl 1.20, without root `apt-get download kubernetes-client` and "
            "`dpkg -x` of Debian 12 make one"
        )
    if not os.access(path, os.X_OK):
        pytest.fail(f"{OLD}: {path} is no program")
    return path


@contextlib.asynccontextmanager
async def served(store: Store) -> AsyncIterator[str]:
    """The URL of an API server on a free port."""
    server, listener = ApiServer(store), listen("127.0.0.1", 0)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    await asyncio.wait_for(server.is_up.wait(), 60)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await running


@dataclass
class Kubectl:
    """Runs kubectl with a kubeconfig and a home of its own."""

    config: Path
    home: Path
    program: str
    is_old: bool = False

    def needs_today(self, why: str) -> None:
        """Skip the test for the old kubectl, which cannot do it on today's servers."""
        if self.is_old:
            pytest.skip(f"not for kubectl 1.20: {why}")

    @staticmethod
    def for_server(url: str, home: Path, which: str = NEWEST_PROGRAM) -> Kubectl:
        """``which``: one of ``PROGRAMS``. Skips the test where it is not on this machine."""
        program = program_or_skip(which)
        write_kubeconfig(home / "kubeconfig", url)
        return Kubectl(home / "kubeconfig", home, program, is_old=which == OLD_PROGRAM)

    async def __call__(
        self, *arguments: str, stdin: str = "", editor: str = "false"
    ) -> tuple[int, str]:
        """(exit code, output and errors). ``editor`` is the shell command behind ``kubectl edit``."""
        process = await asyncio.create_subprocess_exec(
            self.program,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={
                "KUBECONFIG": str(self.config),
                "HOME": str(self.home),
                "PATH": "/usr/bin:/usr/local/bin:/bin",
                "KUBE_EDITOR": editor,
            },
        )
        output, _ = await asyncio.wait_for(process.communicate(stdin.encode()), 60)
        return process.returncode or 0, output.decode()
