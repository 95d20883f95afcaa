"""The real kubectl against an embedded API server."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from local.cluster.kubeconfig import write_kubeconfig
from local.cluster.server import serve
from local.cluster.store import Store

NEEDS_KUBECTL = pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="kubectl is not installed"
)


@contextlib.asynccontextmanager
async def served(store: Store) -> AsyncIterator[str]:
    """The URL of an API server on a free port."""
    listening: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(serve(store, "127.0.0.1", 0, started=listening.set_result))
    yield f"http://127.0.0.1:{await asyncio.wait_for(listening, 60)}"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@dataclass
class Kubectl:
    """Runs kubectl with a kubeconfig and a home of its own."""

    config: Path
    home: Path

    @staticmethod
    def for_server(url: str, home: Path) -> Kubectl:
        """Skips the test where kubectl is not installed."""
        if shutil.which("kubectl") is None:
            pytest.skip(
                "kubectl is not on PATH; install it to check the server against the real client"
            )
        write_kubeconfig(home / "kubeconfig", url)
        return Kubectl(home / "kubeconfig", home)

    async def __call__(
        self, *arguments: str, stdin: str = "", editor: str = "false"
    ) -> tuple[int, str]:
        """(exit code, output and errors). ``editor`` is the shell command behind ``kubectl edit``."""
        process = await asyncio.create_subprocess_exec(
            "kubectl",
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
