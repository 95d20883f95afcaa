"""A local stack for one measurement, with memory and processor time of its processes.

All processes of the stack share the machine's cores, so wall-clock times include the emulators.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.report import Row
from bench.stacks.cpu_shares import cpu_seconds
from local.probe import request_json
from local.stack import Stack, StackSettings
from shared.concurrency.clock import SystemClock
from shared.kube.client import Kube


@dataclass(frozen=True)
class Bench:
    """A running stack, with clients of its API server and AWS emulator."""

    stack: Stack
    kube: Kube

    @property
    def cluster_name(self) -> str:
        """The cluster's name in tags and node classes."""
        return self.stack.running().environment["CLUSTER_NAME"]

    async def emulator(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Calls the AWS emulator's control endpoint with GET, or with POST and a body. Raises Unreachable."""
        url = self.stack.running().environment["AWS_ENDPOINT_URL"] + "/_dovetail/" + path
        return await asyncio.to_thread(request_json, url, body=body)

    def processes(self) -> list[Row]:
        """Per process of the stack: the largest resident size so far, processor seconds, and number of restarts."""
        rows = []
        for part in self.stack.running().parts:
            peak, seconds = peak_mib(part.process.pid), round(cpu_seconds(part.process.pid), 1)
            row = {"process": part.name, "peak MiB": peak, "CPU s": seconds}
            rows.append({**row, "restarts": part.restarts})
        return rows


@asynccontextmanager
async def running(**settings: Any) -> AsyncIterator[Bench]:
    """A stack with these fields of ``StackSettings``, stopped at the end. Raises StackFailed."""
    with tempfile.TemporaryDirectory() as directory:
        stack = Stack(Path(directory))
        await asyncio.to_thread(
            stack.start, StackSettings(stack.directory, **settings), detach=False
        )
        try:
            kube = await Kube.connect(
                stack.running().environment["KUBECONFIG"],
                clock=SystemClock(),
                random=random.Random(0),
                user_agent="bench",
            )
            try:
                yield Bench(stack, kube)
            finally:
                await kube.close()
        finally:
            await asyncio.to_thread(stack.stop)


def peak_mib(pid: int) -> int:
    """The largest resident size of a process so far, as the kernel reports it."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) // 1024
    return 0
