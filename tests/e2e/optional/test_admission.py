"""The admission policies of ``deploy/kubernetes/admission``, applied beside running services."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shared.domain import labels as keys
from shared.errors import DovetailError
from shared.kube.resources import NODE_POOLS
from tests.support.cluster.kubectl import NEEDS_KUBECTL
from tests.support.stories.playground import Playground, ShellKubectl
from tests.support.stories.scale_down import Pool, family

pytestmark = [pytest.mark.e2e, NEEDS_KUBECTL]
POLICIES = str(Path(__file__).parents[3] / "deploy" / "kubernetes" / "admission")


@pytest.fixture
async def governed(playground: Playground, kubectl: ShellKubectl) -> AsyncIterator[ShellKubectl]:
    """kubectl of a cluster with the policies, which are deleted at the end."""
    await kubectl("apply", "-k", POLICIES)
    yield kubectl
    await kubectl("delete", "-k", POLICIES)


async def test_what_the_policies_refuse_never_reaches_the_services(
    playground: Playground, governed: ShellKubectl
) -> None:
    """A right pool can still be changed, and gives its pods a node."""
    pool = Pool(playground, governed, "NodePool", "governed")
    await pool.apply_class()
    await pool.apply(family("c6a"), limits={"nodes": "3"})

    async def annotated(key: str, value: str) -> dict[str, Any]:
        change = {"metadata": {"annotations": {key: value}}}
        return await playground.kube.patch(NODE_POOLS, "governed", change)

    with pytest.raises(DovetailError, match="more nodes than the pool"):
        await annotated(keys.MINIMUM_ANNOTATION, "nodes: 5")
    with pytest.raises(DovetailError, match=r"dovetail\.sh/minimun"):
        await annotated("dovetail.sh/minimun", "nodes: 1")
    with pytest.raises(DovetailError, match="LowestCost"):
        await annotated(keys.PACKING_ANNOTATION, "Cheapest")
    stored = await annotated(keys.PACKING_ANNOTATION, "LowestCost")
    assert stored["metadata"]["annotations"][keys.PACKING_ANNOTATION] == "LowestCost"
    await pool.run(1)
    await pool.serving(1)
