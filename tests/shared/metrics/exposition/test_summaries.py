"""Summaries whose quantiles dashboards ask for."""

from __future__ import annotations

from math import isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from shared.metrics.declaring import SUMMARY, Declarations
from shared.metrics.exposition.summaries import MOST_HELD, QUANTILES, WINDOW_SECONDS, quantile_of
from tests.support.clock.fake import FakeClock
from tests.support.metrics.pages import Scraped


def test_quantiles_are_of_the_last_minutes_and_sums_of_all_time() -> None:
    clock = FakeClock()
    declare = Declarations(CollectorRegistry(auto_describe=True), clock.monotonic)
    summary = declare.summary("wait_seconds", "Waits.", "pool")
    declare.also_as("wait_time_seconds", summary, "wait_seconds")
    summary.labels("p").observe(100)
    clock.advance(WINDOW_SECONDS + 1)
    for value in range(1, 11):
        summary.labels("p").observe(value)
    found = Scraped(generate_latest(declare.registry))
    told = {q: found.value("wait_seconds", pool="p", quantile=q) for q in ("0", "0.5", "0.9", "1")}
    assert told == {"0": 1, "0.5": 5, "0.9": 9, "1": 10}
    assert found.value("wait_seconds_sum", pool="p") == 155
    assert found.value("wait_time_seconds_count", pool="p") == 11
    assert found.value("wait_time_seconds", pool="p", quantile="0.9") == 9
    assert [one.kind for one in declare.declared] == [SUMMARY, SUMMARY]


def test_nothing_observed_lately_is_not_zero() -> None:
    declare = Declarations(CollectorRegistry(auto_describe=True), FakeClock().monotonic)
    declare.summary("wait_seconds", "Waits.")
    found = Scraped(generate_latest(declare.registry))
    assert isnan(found.value("wait_seconds", quantile="0.5") or 0)
    assert found.value("wait_seconds_count") == 0


def test_no_more_is_held_than_is_said() -> None:
    declare = Declarations(CollectorRegistry(auto_describe=True), FakeClock().monotonic)
    summary = declare.summary("wait_seconds", "Waits.")
    for value in range(MOST_HELD + 5):
        summary.observe(value)
    assert len(summary.labels().recent()) == MOST_HELD
    assert summary.labels().totals()[1] == MOST_HELD + 5


def test_a_wrong_number_of_labels_is_refused() -> None:
    declare = Declarations(CollectorRegistry(auto_describe=True))
    summary = declare.summary("wait_seconds", "Waits.", "pool")
    with pytest.raises(ValueError, match="wait_seconds has 1 labels, 0 given"):
        summary.observe(1)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_a_quantile_is_one_of_the_values_and_never_falls(values: list[float]) -> None:
    ordered = sorted(values)
    found = [quantile_of(ordered, quantile) for quantile in QUANTILES]
    assert found == sorted(found)
    assert set(found) <= set(values)
    assert (found[0], found[-1]) == (ordered[0], ordered[-1])
