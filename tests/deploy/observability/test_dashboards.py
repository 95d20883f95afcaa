"""Each dashboard can be imported into any Grafana, and each of its queries finds its metrics."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.observability.content import DASHBOARDS
from deploy.observability.panels import DATASOURCE, FOLDER, documents
from tests.deploy.observability.rule_files import KNOWN
from tests.support.metrics.promql import faults, named, needs_promtool, promtool

BOARDS = {path.name: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


def panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def queries() -> Iterator[tuple[str, str, str]]:
    """(where, expression, legend) of every query."""
    for name, board in BOARDS.items():
        for panel in panels(board):
            for target in panel["targets"]:
                where = f"{name}: {panel['title']}: {target['refId']}"
                yield where, target["expr"], target["legendFormat"]


QUERIES = list(queries())


def plain(expression: str) -> str:
    """Without Grafana's variables."""
    return expression.replace("$__rate_interval", "5m").replace("$nodepool", ".*")


def test_the_files_are_what_the_data_makes() -> None:
    """``make dashboards`` writes them."""
    assert {path.name: path.read_text() for path in FOLDER.iterdir()} == documents(DASHBOARDS)


@pytest.mark.parametrize("name", BOARDS)
def test_the_reader_chooses_the_data_source(name: str) -> None:
    """A dashboard that names the data source of its author shows nothing anywhere else."""
    board = BOARDS[name]
    variables = {one["name"]: one for one in board["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    asked = [one for panel in panels(board) for one in (panel, *panel["targets"])]
    asked += [one for one in variables.values() if one["type"] == "query"]
    assert len(asked) > 10
    assert all(one["datasource"] == DATASOURCE for one in asked)
    uids = re.findall(r'"uid": "([^"]+)"', json.dumps(board))
    assert set(uids) == {board["uid"], "${datasource}"}


@pytest.mark.parametrize("name", BOARDS)
def test_panels_have_numbers_of_their_own_and_do_not_overlap(name: str) -> None:
    board = BOARDS[name]
    numbers = [panel["id"] for panel in board["panels"]]
    assert len(set(numbers)) == len(numbers)
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells


def test_the_schema_is_that_of_a_grafana_of_today() -> None:
    assert {board["schemaVersion"] for board in BOARDS.values()} == {41}


@pytest.mark.parametrize(
    ("where", "expression", "legend"), QUERIES, ids=[one[0] for one in QUERIES]
)
def test_a_query_names_metrics_and_labels_that_exist(
    where: str, expression: str, legend: str
) -> None:
    assert list(faults(plain(expression), KNOWN)) == []
    shown = set(re.findall(r"{{(\w+)}}", legend))
    assert shown <= named(plain(expression)).grouped | (
        set().union(*(KNOWN[one] for one in named(expression).metrics))
    )


def test_the_variable_of_pools_reads_a_metric_that_exists() -> None:
    found = re.findall(r"label_values\((\w+), (\w+)\)", json.dumps(BOARDS))
    assert found
    assert all(label in KNOWN[metric] for metric, label in found)


@needs_promtool
def test_prometheus_itself_can_parse_every_query(tmp_path: Path) -> None:
    rules = [{"record": f"q{i}", "expr": plain(one[1])} for i, one in enumerate(QUERIES)]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    assert f"{len(QUERIES)} rules found" in promtool("check", "rules", file)
