"""The benchmark of realised cost: plans come true pod by pod when they are handed over."""

from __future__ import annotations

import pytest

from bench.over_time import realised


@pytest.mark.slow
@pytest.mark.parametrize("policy", realised.POLICIES)
def test_every_pod_finds_a_place_and_a_plan_handed_over_costs_what_it_said(policy: str) -> None:
    rows = realised.measure(60, policy)
    assert len(rows) == 4
    handed = [row for row in rows if row["handed over"] == "yes"]
    assert [(row["left over"], row["realised / planned"]) for row in handed] == 2 * [(0, 1.0)]
