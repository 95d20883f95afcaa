"""``dovetail up --kubeconfig`` on a real control plane, from nothing and back to nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.foreign.heartbeats import NAMESPACE as LEASES_NAMESPACE
from local.foreign.objects import CREATED
from shared.kube.client import Kube
from shared.kube.resources import LEASES, NODES
from tests.support.real_cluster.audit import refusals
from tests.support.real_cluster.control_plane import ControlPlane, control_plane
from tests.support.stories.joined import administrator, dovetail, joined_stack
from tests.support.stories.playground import playground_on, until

pytestmark = pytest.mark.kubernetes
FORBIDDEN = 403


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Of this file alone: nobody applied ``deploy/`` to it."""
    with control_plane(tmp_path_factory.mktemp("untouched")) as running:
        yield running


async def inventory(kube: Kube) -> list[set[str]]:
    """Names, by kind, of what a stack creates. The control plane adds roles of its own in its first seconds."""
    return [
        {o["metadata"]["name"] for o in (await kube.list(kind)).items if "dovetail" in str(o)}
        for kind in CREATED
    ]


async def test_a_story_by_kubeconfig_leaves_nothing(
    untouched: ControlPlane, tmp_path: Path
) -> None:
    kube = await administrator(untouched.kubeconfig)
    start = untouched.files.audit.stat().st_size
    async with joined_stack(untouched.kubeconfig, tmp_path / "stack") as stack:
        async with playground_on(stack) as playground:
            report = await playground.play("nodepool")
            problems = [report.failure, *(c.detail for c in report.checks if not c.ok)]
            assert report.ok, (problems, report.timeline[-20:])
        assert (await kube.list(LEASES, LEASES_NAMESPACE)).items
    found = refusals(untouched.files.audit, start)
    assert not {one: count for one, count in found.items() if one.code == FORBIDDEN}

    async def nothing_left() -> bool:
        return not any(await inventory(kube)) and not (await kube.list(NODES)).items

    await until(nothing_left, "an untouched cluster", show=stack.state)
    await kube.close()


async def test_up_and_down_by_their_commands(untouched: ControlPlane, tmp_path: Path) -> None:
    directory = ("--directory", str(tmp_path / "one"))
    up = ("up", "--detach", "--kubeconfig", str(untouched.kubeconfig))
    started = await asyncio.to_thread(dovetail, *up, *directory)
    assert started.returncode == 0, started.stderr
    assert "dovetail-watcher" in untouched.kubectl("-n", "dovetail", "get", "serviceaccounts")
    other = await asyncio.to_thread(dovetail, *up, "--directory", str(tmp_path / "other"))
    assert f"dovetail down --directory {tmp_path / 'one'}" in other.stderr
    stopped = await asyncio.to_thread(dovetail, "down", *directory)
    assert "stopped" in stopped.stdout
    assert "were not removed" not in stopped.stdout
