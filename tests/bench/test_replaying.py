"""The benchmark of a replayed day: the day is what it says, and the archive is replayed as the command does it."""

from __future__ import annotations

from collections import Counter

import pytest

from bench.inputs.clusters import NOW
from bench.over_time.days import HOUR
from bench.over_time.recorded_day import recorded_day
from bench.over_time.replaying import measure
from cli.decisions.replaying.demand import Arrival, Removal, workload_of
from shared.cloud.catalogue.bundled import bundled_catalogue


def test_the_day_has_its_size_and_no_pod_leaves_before_it_has_arrived() -> None:
    day = recorded_day(bundled_catalogue(), 60, 6.0)
    assert 45 <= len(day.start.nodes) <= 75
    alive = Counter(map(workload_of, day.start.pods))
    for wish in day.wishes:
        assert NOW <= wish.at < NOW + 6 * HOUR
        if isinstance(wish, Arrival):
            alive[workload_of(wish.pod)] += 1
        elif isinstance(wish, Removal):
            alive[wish.workload] -= 1
            assert alive[wish.workload] >= 0
    assert day.wishes == recorded_day(bundled_catalogue(), 60, 6.0).wishes


@pytest.mark.slow
def test_both_courses_of_a_recorded_period_are_run() -> None:
    recorded, changed = measure(12, 0.2)
    assert recorded["pods that come"] == changed["pods that come"]
    assert recorded["course"] != changed["course"]
    assert float(str(recorded["$"])) > 0
