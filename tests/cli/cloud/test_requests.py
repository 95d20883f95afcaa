"""``dovetail cloud``: what options become in a request, and what a refusal becomes in a message."""

from __future__ import annotations

import io
import json
from email.message import Message
from typing import Any
from urllib.error import HTTPError

import pytest

from cli.cloud.capacity import _print_capacity, available_of, exhausted_share, tags_of
from cli.cloud.control import CloudControl, _refusal
from cli.cloud.emulator import Emulator
from cli.cloud.events import _chosen, _event
from cli.cloud.views import _print_calls, _print_trail
from shared.errors import ConfigurationError, Unavailable, Unreachable
from tests.services.conftest import Control
from tests.support.aws.emulator import spot_instance, whole_ec2

URL = "http://127.0.0.1:9/_dovetail/capacity"


@pytest.mark.parametrize(
    ("percent", "all_but", "share"),
    [(None, None, 100), (20.0, None, 20.0), (None, 10.0, 90.0), (100.0, None, 100.0)],
)
def test_the_share_of_exhausted_pools(
    percent: float | None, all_but: float | None, share: float
) -> None:
    assert exhausted_share(percent, all_but) == share


@pytest.mark.parametrize(
    ("percent", "all_but"), [(0.0, None), (101.0, None), (None, 100.0), (10.0, 10.0)]
)
def test_a_share_of_nothing_or_of_more_than_all_is_refused(
    percent: float | None, all_but: float | None
) -> None:
    with pytest.raises(ConfigurationError):
        exhausted_share(percent, all_but)


def test_a_number_of_instances_or_no_limit() -> None:
    assert (available_of("unlimited"), available_of("0"), available_of("12")) == (None, 0, 12)
    for wrong in ("-1", "many", "²"):
        with pytest.raises(ConfigurationError, match="0, 1, 2"):
            available_of(wrong)


def test_the_last_value_of_a_tag_counts_and_may_contain_the_sign() -> None:
    assert tags_of(["a=1", "b=x=y", "a=2"]) == {"a": "2", "b": "x=y"}
    assert tags_of(["empty="]) == {"empty": ""}


def test_instances_are_chosen_by_id_or_by_what_they_are() -> None:
    assert _chosen(["i-1"], False, None, None, None, None, 3) == {"instanceIds": ["i-1"]}
    assert _chosen(None, True, None, None, None, None, 3) == {"where": {"seed": 3}}
    assert _chosen(None, False, "us-west-2a", "m5.*", "spot", 50.0, 3) == {
        "where": {
            "zone": "us-west-2a", "instanceType": "m5.*", "capacityType": "spot", "percent": 50.0, "seed": 3,
        }
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "wire"), [("spot", "spot"), ("state", "state-change"), ("asg", "autoscaling")]
)
def test_an_event_has_the_emulators_name_and_only_the_given_seconds(kind: Any, wire: str) -> None:
    always = {"kind": wire, "state": "stopping", "copies": 2, "foreign": True}
    assert _event(kind, "stopping", 2, True, None, None) == always
    timed = {**always, "noticeSeconds": 30.0, "heartbeatTimeoutSeconds": 60.0}
    assert _event(kind, "stopping", 2, True, 30.0, 60.0) == timed


def refused(code: int, body: object) -> HTTPError:
    return HTTPError(URL, code, "refused", Message(), io.BytesIO(json.dumps(body).encode()))


def test_a_refusal_of_the_emulator_is_its_words() -> None:
    both = _refusal(
        URL, refused(400, {"error": "unknown zone", "fix": "use us-west-2a"}), "capacity"
    )
    assert both.message == "unknown zone; use us-west-2a"
    once = _refusal(URL, refused(400, {"error": "no", "fix": "no, use us-west-2a"}), "capacity")
    assert once.message == "no, use us-west-2a"


def test_an_answer_of_another_server_says_that_it_is_no_emulator() -> None:
    for body in ({"message": "forbidden"}, ["no"]):
        found = _refusal(URL, refused(403, body), "capacity")
        assert isinstance(found, ConfigurationError)
        assert "answered 403: this is not Dovetail's AWS emulator" in found.message


def test_a_broken_emulator_has_a_log() -> None:
    found = _refusal(URL, refused(500, {}), "capacity")
    assert isinstance(found, Unavailable)
    assert "logs/aws.log" in found.message


def test_nobody_at_the_address_says_how_to_start_one() -> None:
    with pytest.raises(Unreachable, match="dovetail up --detach"):
        CloudControl("http://127.0.0.1:9/").get("calls", action="CreateFleet")


def stated(**changes: Any) -> dict[str, Any]:
    return {"statements": [], "cuts": [], "quotas": {}, **changes}


def test_limits_of_the_capacity_are_lines_below_its_table(
    capsys: pytest.CaptureFixture[str],
) -> None:
    row = {
        "instanceType": "m5.*", "zone": "*", "capacityType": "spot", "available": 3, "percent": 12.5,
        "used": {"m5.large": 1, "m5.xlarge": 1}, "code": "ICE", "placementGroup": "",
    }  # fmt: skip
    _print_capacity(
        stated(
            statements=[row, {**row, "available": None, "placementGroup": "racks"}],
            cuts=[{"count": 2, "give": 1, "code": "ICE"}],
            quotas={"spotVcpus": 8, "onDemandVcpus": None},
        )
    )
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.startswith("TYPE")
    assert [line.split() for line in lines[:2]] == [
        ["m5.*", "*", "spot", "-", "3", "12.5%", "2", "ICE"],
        ["m5.*", "*", "spot", "racks", "unlimited", "12.5%", "2", "ICE"],
    ]
    assert lines[2:] == ["the next 2 fleets give at most 1 (ICE)", "quota spotVcpus 8"]


def test_without_statements_every_pool_is_unlimited(capsys: pytest.CaptureFixture[str]) -> None:
    _print_capacity(stated())
    assert capsys.readouterr().out == "every pool is unlimited\n"


def test_a_call_is_a_row_with_its_error_and_token(capsys: pytest.CaptureFixture[str]) -> None:
    call = {"at": 1.5, "service": "ec2", "action": "CreateFleet", "status": 503}
    _print_calls(
        [
            {**call, "code": "RequestLimitExceeded", "parameters": {"ClientToken": "t-1"}},
            {**call, "status": 200, "code": None, "parameters": {}},
        ]
    )
    _, failed, fine = capsys.readouterr().out.splitlines()
    assert failed.split() == [
        "00:00:01.500", "ec2", "CreateFleet", "503", "RequestLimitExceeded", "t-1",
    ]  # fmt: skip
    assert fine.split() == ["00:00:01.500", "ec2", "CreateFleet", "200"]


def test_a_launch_of_the_trail_is_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    event = {
        "eventTime": "2026-01-01T00:00:00Z",
        "eventName": "RunInstances",
        "userIdentity": {"invokedBy": "ec2fleet.amazonaws.com"},
        "requestParameters": {
            "instanceType": "m5.large",
            "availabilityZone": "us-west-2a",
            "instancesSet": {"items": [{"minCount": 1, "maxCount": 2}]},
        },
        "responseElements": {
            "instancesSet": {"items": [{"instanceId": "i-1"}, {"instanceId": "i-2"}]}
        },
    }
    _print_trail([event])
    _, row = capsys.readouterr().out.splitlines()
    assert row.split()[3:] == ["m5.large", "us-west-2a", "1/2", "i-1", "i-2"]


async def test_the_demo_sees_and_interrupts_only_its_own_instances(aws_emulator_url: str) -> None:
    control = Control(aws_emulator_url)
    control.post("reset")
    async with whole_ec2(aws_emulator_url) as ec2:
        ours = await spot_instance(ec2, "dovetail-local")
        await spot_instance(ec2, "another")
    emulator = Emulator(aws_emulator_url, "dovetail-local")
    (seen,) = await emulator.instances()
    assert (seen.instance_id, seen.instance_type, seen.live) == (ours, "m5.large", True)
    await emulator.interrupt(ours)
    with pytest.raises(Unreachable):
        await emulator.interrupt("i-unknown")
