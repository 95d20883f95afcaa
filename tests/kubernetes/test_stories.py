"""The main stories on a real control plane, each service with the rights of its own ServiceAccount and no others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from cli.demo.report import Report
from local.stack import Stack
from tests.support.real_cluster.audit import refusals
from tests.support.real_cluster.control_plane import ControlPlane
from tests.support.real_cluster.stack import (
    create_daemon_sets,
    real_stack,
    take_workloads_away,
)
from tests.support.stories.playground import Playground, playground_on, until

pytestmark = pytest.mark.kubernetes
FORBIDDEN = 403


@pytest.fixture(scope="module")
def stack(deployed: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """With Leases, as on a cluster of a user's. At its end the audit log tells what was refused."""
    take_workloads_away(deployed)
    create_daemon_sets(deployed)
    start = deployed.files.audit.stat().st_size
    with real_stack(
        deployed, tmp_path_factory.mktemp("stack"), DISABLE_LEADER_ELECTION="false"
    ) as stack:
        yield stack
    found = refusals(deployed.files.audit, start)
    forbidden = {answer: count for answer, count in found.items() if answer.code == FORBIDDEN}
    assert not forbidden, f"rights that deploy/ lacks: {forbidden}; all refusals: {found}"


@pytest.fixture
async def playground(stack: Stack) -> AsyncIterator[Playground]:
    async with playground_on(stack) as playground:
        yield playground


async def came_out(playground: Playground, scenario: str) -> Report:
    """Play it; every phase ended, every check held, and nothing is left."""
    report = await playground.play(scenario)
    problems = [report.failure, *(check.detail for check in report.checks if not check.ok)]
    assert report.ok, (problems, report.timeline[-20:])
    now = await playground.look()
    assert (now.live_instances, now.machines, now.nodes, now.pods) == ((), (), (), ())
    assert report.terminated == report.launched
    await until(playground.no_work_is_left, "no launch record and drained streams")
    return report


@pytest.mark.parametrize("scenario", ["burst-400", "nodepool"])
async def test_400_pods_get_nodes_run_and_leave_nothing(
    playground: Playground, scenario: str
) -> None:
    """With a Provisioner of v1alpha5, and with a NodePool of v1."""
    report = await came_out(playground, scenario)
    assert report.pods == (400, 400, 0)


async def test_a_budget_holds_a_drain_until_it_allows_it(playground: Playground) -> None:
    """Through the real eviction API and the real disruption controller."""
    await came_out(playground, "pdb-blocked")


async def test_an_interrupted_spot_node_is_replaced(playground: Playground) -> None:
    report = await came_out(playground, "spot-interruption")
    assert report.launched == 2
