"""The describe lag as arithmetic: what a list shows is what was true a lag ago."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from local.aws.catalogue.types import InstanceTypeFacts
from local.aws.clock.timers import ThreadTimers
from local.aws.ec2.instances import Instance, Inventory
from local.aws.settings import Behaviour
from tests.support.clock.fake import FakeClock


def inventory(lag: float, seed: int | None) -> tuple[Inventory, FakeClock]:
    clock = FakeClock()
    behaviour = Behaviour(0, 0, 0, 0, lag, seed)
    found = Inventory(
        clock,
        behaviour,
        ThreadTimers(clock),
        on_change=lambda instance, state: None,
        on_terminated=lambda instance: None,
        on_forgotten=lambda instance: None,
    )
    return found, clock


def instance(sequence: int, clock: FakeClock) -> Instance:
    facts = InstanceTypeFacts.__new__(InstanceTypeFacts)
    return Instance(
        instance_id=f"i-{sequence}",
        sequence=sequence,
        reservation_id="r-1",
        owner_id="1",
        region="us-west-2",
        facts=facts,
        zone="us-west-2a",
        zone_id="usw2-az1",
        subnet_id="subnet-1",
        vpc_id="vpc-1",
        private_ip="10.0.0.1",
        image_id="ami-1",
        lifecycle="spot",
        security_groups=(),
        tags={},
        launched_at=clock.now(),
        launched_monotonic=clock.monotonic(),
    )


@given(
    st.floats(1, 90), st.lists(st.tuples(st.floats(0.1, 30), st.sampled_from("abc")), max_size=20)
)
def test_a_list_shows_the_tags_of_a_lag_ago(lag: float, changes: Any) -> None:
    instances, clock = inventory(lag, None)
    one = instance(1, clock)
    instances.add(one)
    clock.advance(lag)
    history: list[tuple[float, dict[str, Any]]] = [(clock.seconds, {})]
    for wait, value in changes:
        clock.advance(wait)
        instances.remember(one)
        one.tags["team"] = value
        history.append((clock.seconds, {"team": value}))
        then = clock.seconds - lag
        expected = [tags for at, tags in history if at <= then] or [{}]
        assert instances.described([one])[0].tags == expected[-1]


@given(st.integers(), st.floats(1, 90))
def test_each_lag_is_drawn_from_the_seed_and_within_the_limit(seed: int | None, limit: Any) -> None:
    instances, clock = inventory(limit, seed)
    again, _ = inventory(limit, seed)
    machines = [instance(number, clock) for number in range(1, 20)]
    lags = [instances.lag(one) for one in machines]
    assert lags == [again.lag(one) for one in machines]
    assert all(0 <= lag <= limit for lag in lags)
    assert len(set(lags)) > 1


def test_a_new_instance_is_hidden_until_its_own_lag_is_over() -> None:
    instances, clock = inventory(90, 7)
    machines = [instance(number, clock) for number in range(1, 30)]
    for one in machines:
        instances.add(one)
    clock.advance(45)
    shown = instances.visible("us-west-2")
    assert 0 < len(shown) < len(machines)
    assert all(instances.lag(one) <= 45 for one in shown)
    clock.advance(45)
    assert instances.visible("us-west-2") == machines
