"""A stack on a cluster that it did not start: the embedded one of another process stands for it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from local.foreign.heartbeats import NAMESPACE as LEASES_NAMESPACE
from local.foreign.objects import CREATED
from local.stack_plan import ACCOUNTS, KUBELETS, NAMESPACE
from shared.kube.resources import LEASES, NODES, PODS
from tests.support.stories.joined import administrator, dovetail, embedded_cluster, joined_stack
from tests.support.stories.playground import playground_on

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]


async def test_a_story_on_a_cluster_that_ran_before(tmp_path: Path) -> None:
    """Nodes come and go by the stack's kubelets, with Leases; afterwards the cluster is as it was."""
    async with embedded_cluster(tmp_path) as kubeconfig:
        kube = await administrator(kubeconfig)
        before = [(await kube.list(resource)).items for resource in CREATED]
        async with joined_stack(kubeconfig, tmp_path / "stack") as stack:
            async with playground_on(stack) as playground:
                report = await playground.play("nodepool")
                problems = [report.failure, *(c.detail for c in report.checks if not c.ok)]
                assert report.ok, (problems, report.timeline[-20:])
            names = {part.name for part in stack.running().parts}
            assert "kubelets" in names
            assert "cluster" not in names
            fixed = {node["metadata"]["name"] for node in (await kube.list(NODES)).items}
            leased = await kube.list(LEASES, LEASES_NAMESPACE)
            assert fixed <= {lease["metadata"]["name"] for lease in leased.items}
        after = [(await kube.list(resource)).items for resource in CREATED]
        assert after == before
        assert (await kube.list(NODES)).items == []
        assert [p for p in (await kube.list(PODS)).items if p["spec"].get("nodeName")] == []
        await kube.close()


async def test_up_and_down_by_their_commands(tmp_path: Path) -> None:
    """A second directory is refused while the first stack runs; `down` by kubeconfig cleans what a lost one left."""
    async with embedded_cluster(tmp_path) as kubeconfig:
        one, other = (
            ("--directory", str(tmp_path / "one")),
            ("--directory", str(tmp_path / "other")),
        )
        up = ("up", "--detach", "--kubeconfig", str(kubeconfig))
        started = await asyncio.to_thread(dovetail, *up, *one)
        assert started.returncode == 0, started.stderr
        assert f"KUBECONFIG={tmp_path / 'one' / 'kubeconfig'}" in started.stdout
        refused = await asyncio.to_thread(dovetail, *up, *other)
        assert refused.returncode == 1
        assert f"dovetail down --directory {tmp_path / 'one'}" in refused.stderr
        account = tmp_path / "one" / ACCOUNTS / NAMESPACE / KUBELETS
        assert account.exists()

        (tmp_path / "one" / "joined.kubeconfig").rename(tmp_path / "lost")
        stopped = await asyncio.to_thread(dovetail, "down", *one)
        assert "stopped" in stopped.stdout
        cleaned = await asyncio.to_thread(dovetail, "down", "--kubeconfig", str(kubeconfig))
        assert "removed: " in cleaned.stdout, cleaned.stderr
        again = await asyncio.to_thread(dovetail, "down", "--kubeconfig", str(kubeconfig))
        assert "nothing of a stack was found on this cluster" in again.stdout
        assert not (tmp_path / "other" / "joined.kubeconfig").exists()


async def test_a_cluster_that_went_first_does_not_hold_the_stack(tmp_path: Path) -> None:
    async with embedded_cluster(tmp_path) as kubeconfig:
        directory = ("--directory", str(tmp_path / "stack"))
        started = await asyncio.to_thread(
            dovetail, "up", "--detach", "--kubeconfig", str(kubeconfig), *directory
        )
        assert started.returncode == 0, started.stderr
    stopped = await asyncio.to_thread(dovetail, "down", *directory)
    assert stopped.returncode == 0
    assert "were not removed" in stopped.stdout
    assert "stopped" in stopped.stdout
    again = await asyncio.to_thread(dovetail, "down", *directory)
    assert again.stdout == "nothing was running\n"
