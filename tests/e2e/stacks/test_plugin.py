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
from tests.support.stories.playground import Playground

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
    code, output = await dovetail(playground, "status")
    assert code == 0, output
    ready = {line.split()[0] for line in output.splitlines() if " yes " in line}
    assert {*SERVICES, "console"} <= ready
    assert "service://dovetail/dovetail-scheduler:status" in output
    code, output = await dovetail(playground, "explain", "node", "nobody")
    assert (code, "no machine of ours" in output) == (1, True)
    code, output = await dovetail(playground, "top", "-o", "json")
    assert (code, json.loads(output)["cluster"]) == (0, playground.environment.cluster_name)
    words = ("doctor", "-o", "json", "--only", "services", "--only", "cluster", "--only", "rights")
    code, output = await dovetail(playground, *words)
    assert (code, [one for one in json.loads(output) if one["state"] != "ok"]) == (0, [])
