"""How often what a node class selects is looked up: AMI_REFRESH_INTERVAL and SUBNET_REFRESH_INTERVAL."""

from __future__ import annotations

import pytest

from services.launcher.node_class.controller import NodeClasses
from services.launcher.node_class.discovery import TURN_SECONDS, turn_seconds
from services.launcher.node_class.shared_answers import SharedAnswers
from services.launcher.ports import Ports
from shared.domain.pools.nodepools import SelectorTerm
from shared.errors import ConfigurationError, Unavailable
from shared.kube.client import Kube
from shared.kube.resources import EC2_NODE_CLASSES
from tests.services.conftest import Control, create_node_class
from tests.services.launcher.conftest import with_settings
from tests.services.launcher.node_class.test_controller import V1_KEY, reads
from tests.support.clock.fake import FakeClock


@pytest.mark.parametrize(
    ("setting", "kept", "asked"),
    [
        ("ami_refresh_interval", "DescribeImages", "DescribeSubnets"),
        ("subnet_refresh_interval", "DescribeSubnets", "DescribeImages"),
    ],
)
async def test_what_may_be_older_is_not_looked_up_each_minute(
    kube: Kube,
    ports: Ports,
    control: Control,
    clock: FakeClock,
    setting: str,
    kept: str,
    asked: str,
) -> None:
    """An edit of the class looks at once."""
    node_classes = NodeClasses(with_settings(ports, **{setting: "5m"}))
    await create_node_class(kube)
    await node_classes.refresh_all()
    before = reads(control, kept), reads(control, asked)
    clock.advance(TURN_SECONDS)
    await node_classes.refresh_all()
    assert reads(control, kept) == before[0]
    assert reads(control, asked) > before[1]
    clock.advance(300 - 2 * TURN_SECONDS + 1)
    await node_classes.refresh_all()
    assert reads(control, kept) > before[0]
    now = reads(control, kept)
    await kube.patch(EC2_NODE_CLASSES, "default", {"spec": {"tags": {"team": "a"}}})
    await node_classes.refresh_one(V1_KEY)
    assert reads(control, kept) > now


async def test_what_must_be_newer_is_looked_up_within_seconds(
    kube: Kube, ports: Ports, control: Control, clock: FakeClock
) -> None:
    """Nothing but that: images may be a minute old."""
    often = with_settings(ports, subnet_refresh_interval="2s")
    assert (turn_seconds(often.settings), turn_seconds(ports.settings)) == (2.0, TURN_SECONDS)
    node_classes = NodeClasses(often)
    await create_node_class(kube)
    await node_classes.refresh_all()
    before = reads(control, "DescribeSubnets"), reads(control, "DescribeImages")
    clock.advance(2.0)
    await node_classes.refresh_all()
    assert reads(control, "DescribeSubnets") > before[0]
    assert reads(control, "DescribeImages") == before[1]


def test_less_than_a_second_is_refused(ports: Ports) -> None:
    with pytest.raises(ConfigurationError, match="SUBNET_REFRESH_INTERVAL"):
        with_settings(ports, subnet_refresh_interval="500ms")


async def test_classes_that_select_the_same_share_one_answer(
    kube: Kube, ports: Ports, control: Control, clock: FakeClock
) -> None:
    """Within a turn. The next turn asks again, and so does an edit."""
    shared = ("DescribeSubnets", "DescribeSecurityGroups", "DescribeImages")
    node_classes = NodeClasses(ports)
    for name in ("default", "second", "third"):
        await create_node_class(kube, name)
    await create_node_class(kube, "other", subnetSelectorTerms=[{"id": "subnet-0"}])
    await node_classes.refresh_all()
    assert [reads(control, action) for action in shared] == [2, 1, 1]
    assert {"EC2NodeClass/second", "EC2NodeClass/third"} <= node_classes.ready().keys()
    clock.advance(TURN_SECONDS)
    await node_classes.refresh_all()
    assert [reads(control, action) for action in shared] == [4, 2, 2]
    await node_classes.refresh_one(V1_KEY)
    assert [reads(control, action) for action in shared] == [5, 3, 3]


async def test_an_answer_that_failed_is_not_shared(ports: Ports, clock: FakeClock) -> None:
    answers, asked = SharedAnswers(clock), 0

    async def refuse() -> None:
        nonlocal asked
        asked += 1
        raise Unavailable("throttled")

    for _ in range(2):
        with pytest.raises(Unavailable):
            await answers.find("subnets", [SelectorTerm(id="subnet-0")], refuse)
    assert asked == 2
