"""Where the dollars of a day go: every dollar has one cause."""

from __future__ import annotations

import pytest

from bench.over_time.day import Way, empty_cluster
from bench.over_time.losses import BOOTING, RESTING, SETTLED, WORTH, divided
from shared.disruption.global_consolidation.churn import Churn
from tests.bench.test_day import small_day
from tests.support.planning.builders import real_catalogue


@pytest.mark.slow
def test_every_dollar_of_a_day_has_one_cause() -> None:
    way = Way("LowestCost", "Global", Churn(rest_seconds=7200.0))
    cluster = divided(small_day(12), way, empty_cluster(real_catalogue()))
    spent = cluster.spent
    assert sum(spent.values()) == pytest.approx(cluster.totals.dollars, rel=0.05)
    assert spent[WORTH] > spent[BOOTING] > 0
    # Half of the pods leave after half of the day, and no machine is old enough to be moved.
    assert spent[RESTING] > 0 == spent[SETTLED]
