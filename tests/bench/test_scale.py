"""The scale story in simulated time: its figures and its picture."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from bench.over_time.day import Way
from bench.over_time.scale import rows_of, run
from bench.over_time.scale_picture import draw

WAY = Way("FewestNodes", "Global")
COUNT = 40


@pytest.mark.slow
def test_the_story_goes_up_and_down_again() -> None:
    cluster = run(COUNT, WAY)
    rows = rows_of(cluster, WAY, 1.0)
    assert [(row["pods"], row["running"]) for row in rows] == [(40, 40), (20, 20), (0, 0)]
    cost = [float(str(row["$/h"])) for row in rows]
    assert cost[0] > cost[1] > cost[2] == 0
    assert rows[-1]["machines"] == 0
    picture = draw(cluster.samples, "40 pods, half of them, none")
    shapes = [one.tag.rpartition("}")[2] for one in ElementTree.fromstring(picture)]
    assert shapes.count("polygon") == 3
    assert shapes.count("polyline") == 1
