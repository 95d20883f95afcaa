"""``kubectl dovetail`` and ``dovetail doctor`` on a whole stack, by the real kubectl and the kubeconfig alone."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from local.stack_plan import SERVICES
from tests.support.cluster.kubectl import NEEDS_KUBECTL
from tests.support.stories.playground import Playground, until

pytestmark = [pytest.mark.e2e, NEEDS_KUBECTL]


async def dovetail(playground: Playground, *words: str) -> tuple[int, str]:
    """(exit code, output) of ``kubectl dovetail``."""
    programs = Path(sys.executable).parent
    process = await asyncio.create_subprocess_exec(
        "kubectl", "dovetail", *words, cwd=playground.stack.directory.parent,
        env={
            "PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(playground.stack.directory),
            "KUBECONFIG": playground.environment.kubeconfig, "COLUMNS": "200",
        },
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


async def test_the_services_are_reached_without_an_address(playground: Playground) -> None:
    shown = [""]

    async def all_are_ready() -> bool:
        """The test before may have cut connections: a service that noticed is not ready for a moment."""
        code, shown[0] = await dovetail(playground, "status")
        ready = {line.split()[0] for line in shown[0].splitlines() if " yes " in line}
        return code == 0 and {*SERVICES, "console"} <= ready

    await until(all_are_ready, "every service is ready", seconds=60, show=lambda: shown[0])
    assert "service://dovetail/dovetail-scheduler:status" in shown[0]
    code, output = await dovetail(playground, "explain", "node", "nobody")
    assert (code, "no machine of ours" in output) == (1, True)
    code, output = await dovetail(playground, "top", "-o", "json")
    assert (code, json.loads(output)["cluster"]) == (0, playground.environment.cluster_name)
    words = ("doctor", "-o", "json", "--only", "services", "--only", "cluster", "--only", "rights")
    code, output = await dovetail(playground, *words)
    assert (code, [one for one in json.loads(output) if one["state"] != "ok"]) == (0, [])
