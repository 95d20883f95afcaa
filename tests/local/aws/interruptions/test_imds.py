"""The metadata service of an instance: IMDSv2 tokens, and notices fed by the interruptions (INT-40,
INT-41).
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.aws.interruptions.notices import MAINTENANCE_LIMIT, Maintenance, Notices
from tests.local.aws.conftest import ControlClient, Network, fleet, instance_ids

TOKEN = "X-aws-ec2-metadata-token"
TTL = "X-aws-ec2-metadata-token-ttl-seconds"


class Metadata:
    """What a termination handler on one instance sees."""

    def __init__(self, url: str, instance_id: str) -> None:
        self.instance_id = instance_id
        self._base = f"{url}/_dovetail/imds/{instance_id}/latest/"

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
        """(HTTP status, text)."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self._base + path, headers=named, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def read(self, path: str) -> str | None:
        """With a fresh token; None for what is not announced."""
        _, token = self.ask("api/token", "PUT", **{TTL: "60"})
        status, text = self.ask(f"meta-data/{path}", **{TOKEN: token})
        assert status in (200, 404)
        return text if status == 200 else None

    def text(self, path: str) -> str:
        """Of what must be announced."""
        found = self.read(path)
        assert found is not None
        return found


@pytest.fixture
async def metadata(aws_emulator_url: str, ec2: Any, network: Network) -> Metadata:
    request = fleet(network, [("m5.large", "a")], capacity_type="spot")
    (instance_id,) = instance_ids(await ec2.create_fleet(**request))
    return Metadata(aws_emulator_url, instance_id)


async def test_a_token_is_needed_and_belongs_to_one_instance(
    metadata: Metadata, aws_emulator_url: str
) -> None:
    assert metadata.ask("meta-data/instance-id")[0] == 401
    assert metadata.ask("meta-data/instance-id", **{TOKEN: "made-up"})[0] == 401
    assert metadata.ask("api/token", "PUT")[0] == 400
    assert metadata.ask("api/token", "PUT", **{TTL: "21601"})[0] == 400
    assert metadata.ask("api/token")[0] == 405
    assert metadata.read("instance-id") == metadata.instance_id
    assert Metadata(aws_emulator_url, "i-0").ask("api/token", "PUT", **{TTL: "60"})[0] == 404


async def test_nothing_is_announced_before_it_happens(metadata: Metadata) -> None:
    for path in (
        "spot/instance-action",
        "spot/termination-time",
        "events/recommendations/rebalance",
        "autoscaling/target-lifecycle-state",
        "no/such/path",
    ):
        assert metadata.read(path) is None
    assert json.loads(metadata.text("events/maintenance/scheduled")) == []
    assert metadata.read("placement/availability-zone") == "us-west-2a"
    assert metadata.read("instance-life-cycle") == "spot"


async def test_interruptions_reach_the_instance(metadata: Metadata, control: ControlClient) -> None:
    instance = {"instanceId": metadata.instance_id}
    control.post("interruptions", {"kind": "rebalance", **instance})
    assert json.loads(metadata.text("events/recommendations/rebalance"))["noticeTime"].endswith("Z")
    control.post("interruptions", {"kind": "spot", **instance})
    action = json.loads(metadata.text("spot/instance-action"))
    assert (action["action"], action["time"]) == (
        "terminate",
        metadata.read("spot/termination-time"),
    )
    control.post("interruptions", {"kind": "health", **instance})
    control.post("statuses", {"event": "system-reboot", **instance})
    events = json.loads(metadata.text("events/maintenance/scheduled"))
    assert [event["Code"] for event in events] == ["instance-retirement", "system-reboot"]
    control.post("lifecycle", {"targetLifecycleState": "Terminated", **instance})
    assert metadata.read("autoscaling/target-lifecycle-state") == "Terminated"


@given(st.lists(st.floats(1, 1e9), min_size=1, max_size=5))
def test_a_repeated_warning_does_not_put_the_end_off(ends: Any) -> None:
    notices = Notices()
    for at in ends:
        notices.warn_spot("i-1", at)
    assert notices.of("i-1").ends_at == ends[0]


def test_scheduled_events_are_bounded() -> None:
    notices = Notices()
    for number in range(MAINTENANCE_LIMIT + 5):
        notices.schedule("i-1", Maintenance(str(number), "system-reboot", "", 1.0, 2.0))
    kept = [event.event_id for event in notices.of("i-1").maintenance]
    assert kept == [str(number) for number in range(5, MAINTENANCE_LIMIT + 5)]
