"""EKS Auto Mode keeps NodePools and NodeClaims in the same cluster: to every reader of ours they are not there."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import pytest

from shared.api.v1.auto_mode import is_of_others
from shared.errors import NotFound
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.resources import NODE_CLAIMS, NODE_POOLS, Resource
from tests.support.cluster.others import AUTO_MODE_CLASS, others_claim, others_pool

BOTH = pytest.mark.parametrize(
    ("resource", "theirs"),
    [(NODE_POOLS, others_pool("a")), (NODE_CLAIMS, others_claim("a"))],
    ids=["NodePool", "NodeClaim"],
)


@BOTH
async def test_it_is_found_neither_by_its_name_nor_in_a_list(
    kube: Kube, resource: Resource, theirs: dict[str, Any]
) -> None:
    """Nor in a list of metadata, which does not show whose it is."""
    await kube.create(resource, theirs)
    with pytest.raises(NotFound, match="another autoscaler keeps it"):
        await kube.get(resource, "a")
    assert (await kube.list(resource)).items == []
    pages = [one async for one in kube.pages(resource, metadata_only=True)]
    assert [one.items for one in pages] == [[]]


@BOTH
async def test_a_watch_shows_it_as_gone(
    kube: Kube, resource: Resource, theirs: dict[str, Any]
) -> None:
    """So one that became another autoscaler's is forgotten."""
    listed = await kube.list(resource)
    await kube.create(resource, theirs)
    async with aclosing(kube.watch(resource, listed.resource_version)) as watch:
        event = await anext(watch)
    assert event.type == "DELETED"
    assert event.object["metadata"]["name"] == "a"


async def test_its_claims_are_no_machines(kube: Kube) -> None:
    await kube.create(NODE_CLAIMS, others_claim("a"))
    assert await Machines(kube).list() == []
    with pytest.raises(NotFound):
        await Machines(kube).get("NodeClaim/a")


@pytest.mark.parametrize(
    "spec", [{}, {"nodeClassRef": None}, {"nodeClassRef": {"name": "b"}}, None]
)
def test_a_claim_that_names_no_group_of_its_class_is_ours(spec: Any) -> None:
    """Older versions stored NodeClaims so."""
    assert not is_of_others("NodeClaim", {"metadata": {"name": "a"}, "spec": spec})


async def test_a_pool_with_a_class_of_an_unknown_group_is_ours_to_report(kube: Kube) -> None:
    """A slip of the pen in the group must be said in the pool's status (NP-23)."""
    body = others_pool("a")
    body["spec"]["template"]["spec"]["nodeClassRef"] = {**AUTO_MODE_CLASS, "group": "eks.aws"}
    await kube.create(NODE_POOLS, body)
    assert len((await kube.list(NODE_POOLS)).items) == 1
