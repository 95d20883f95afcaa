"""What a NodeClaim says of the place where its instance runs (IT-40, IT-41, IT-44)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from services.launcher.template_data import TENANCY
from shared.api.machines import parse_machine
from shared.domain import labels as keys
from shared.domain.instance_types import Catalogue
from shared.kube.client import Kube
from shared.kube.resources import NODE_CLAIMS
from tests.services.conftest import Control, create_node_claim, create_node_class, create_node_pool
from tests.services.launcher.conftest import Launcher
from tests.support.builders import make_catalogue, make_type

Start = Callable[..., Launcher]


@pytest.fixture
def catalogue() -> Catalogue:
    return make_catalogue((make_type(labels={TENANCY: ("dedicated", "default")}),))


async def launched(start: Start, kube: Kube, *requirements: dict[str, Any]) -> Any:
    """The claim, with its instance."""
    await create_node_pool(kube)
    own = {"key": keys.INSTANCE_TYPE, "operator": "In", "values": [make_type().name]}
    await create_node_claim(kube, "a", requirements=[own, *requirements])
    await start().launch.launch("NodeClaim/a")
    return parse_machine(await kube.get(NODE_CLAIMS, "a"))


@pytest.mark.parametrize("asked", ["", "dedicated"])
async def test_a_claim_names_its_zone_id_and_its_tenancy(
    start: Start, kube: Kube, control: Control, asked: str
) -> None:
    """Pods may select by them, and kube-scheduler looks at the node's labels only."""
    await create_node_class(kube)
    rule = [{"key": TENANCY, "operator": "In", "values": [asked]}] if asked else []
    machine = await launched(start, kube, *rule)
    assert machine.labels[TENANCY] == (asked or "default")
    assert machine.labels[keys.ZONE_ID].startswith("usw2-az")
