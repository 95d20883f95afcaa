"""DescribeInstanceStatus, read as EC2 writes it (INT-30)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.cloud.client.session import Cloud
from shared.cloud.ec2.instance_status import (
    EVENT_STATUS,
    INSTANCE_STATUS,
    SYSTEM_STATUS,
    StatusProblem,
    distinct,
    problems_of,
)
from shared.errors import Unauthorized
from tests.shared.cloud.ec2.test_calls import fleet, launched
from tests.support.waiting import wait_until

AT = datetime(2026, 1, 1, tzinfo=UTC)
SECONDS = AT.timestamp()


def check(status: str = "failed", **fields: Any) -> dict[str, Any]:
    """One status block with one detail."""
    detail = {"Name": "reachability", "Status": status, "ImpairedSince": AT, **fields}
    return {"Status": "impaired", "Details": [detail]}


def event(**fields: Any) -> dict[str, Any]:
    return {"Code": "instance-retirement", "Description": "ends", "NotBefore": AT, **fields}


@pytest.mark.parametrize(
    ("item", "found"),
    [
        ({"InstanceStatus": check()}, [StatusProblem("i-1", INSTANCE_STATUS, since=SECONDS)]),
        ({"SystemStatus": check()}, [StatusProblem("i-1", SYSTEM_STATUS, since=SECONDS)]),
        ({"SystemStatus": check(ImpairedSince=None)}, [StatusProblem("i-1", SYSTEM_STATUS)]),
        ({"SystemStatus": check("passed")}, []),
        ({"SystemStatus": check("insufficient-data")}, []),
        ({"AttachedEbsStatus": check()}, []),
        ({"Events": [event()]}, [StatusProblem("i-1", EVENT_STATUS, due=SECONDS)]),
        ({"Events": [event(Description="[Completed] ends")]}, []),
        ({"Events": [event(Description="[Canceled] ends")]}, []),
        ({"Events": [event(Code="something-new")]}, []),
        ({"Events": [event(NotBefore=None)]}, [StatusProblem("i-1", EVENT_STATUS)]),
        ({}, []),
    ],
)
def test_failed_checks_and_open_events_are_found(item: Any, found: list[StatusProblem]) -> None:
    """EBS status is ignored; an event that is over is no reason to take an instance away."""
    assert problems_of({"InstanceId": "i-1", **item}) == found
    assert problems_of(item) == []


def test_one_problem_per_instance_and_category_the_earliest() -> None:
    """Three listings may show the same instance."""
    early, late = (StatusProblem("i-1", SYSTEM_STATUS, since=at) for at in (1.0, 2.0))
    event = StatusProblem("i-1", EVENT_STATUS, due=9.0)
    assert distinct([late, event, early, late, StatusProblem("i-1", SYSTEM_STATUS)]) == (
        early,
        event,
    )


@given(
    st.lists(
        st.builds(
            StatusProblem,
            st.sampled_from(["i-1", "i-2"]),
            st.sampled_from([INSTANCE_STATUS, SYSTEM_STATUS]),
            st.none() | st.floats(0, 10),
        )
    )
)
def test_distinct_loses_no_instance(found: list[StatusProblem]) -> None:
    names = {(one.instance, one.category) for one in found}
    assert sorted((one.instance, one.category) for one in distinct(found)) == sorted(names)


@pytest.mark.asyncio(loop_scope="module")
async def test_the_emulator_is_asked_by_three_filters(cloud: Cloud, control: Any) -> None:
    """INT-30: impaired instance, impaired system, scheduled event; a healthy one is not shown."""
    result = await cloud.ec2.create_fleet(await fleet(cloud, "status-1", "m5.large", count=4))
    broken, system, retiring, _ = (row.id for row in await launched(cloud, "status-1"))
    assert result
    await running(cloud)
    await control.post("statuses", {"instanceId": broken, "instance": "impaired"})
    await control.post("statuses", {"instanceId": system, "system": "impaired"})
    body = {"instanceId": retiring, "event": "instance-retirement", "eventInSeconds": 3600}
    await control.post("statuses", body)
    found = {(one.instance, one.category) for one in await cloud.instance_statuses.problems()}
    assert found == {
        (broken, INSTANCE_STATUS), (system, SYSTEM_STATUS), (retiring, EVENT_STATUS),
    }  # fmt: skip


async def running(cloud: Cloud) -> None:
    async def all_run() -> bool:
        return all(row.state == "running" for row in await launched(cloud, "status-1"))

    await wait_until(all_run, "the instances run")


@pytest.mark.asyncio(loop_scope="module")
async def test_without_permission_it_is_named(cloud: Cloud, control: Any) -> None:
    """INT-30: status checks."""
    await control.fault("DescribeInstanceStatus", "UnauthorizedOperation", status=403)
    with pytest.raises(Unauthorized, match="allow ec2:DescribeInstanceStatus") as caught:
        await cloud.instance_statuses.problems()
    assert caught.value.context["code"] == "UnauthorizedOperation"
