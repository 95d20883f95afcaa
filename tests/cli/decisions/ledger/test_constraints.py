"""``dovetail ledger constraints`` as people meet it: a cluster in files, or a recorded one."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from cli.decisions.ledger.constraints import COLUMNS
from cli.main import commands
from shared.concurrency.clock import rfc3339
from shared.domain import labels as keys
from shared.runtime.archive.store import DirectoryStore
from shared.simulation.ledgers.pricing import Source, priced
from shared.solver.solve import SolverSettings
from tests.cli.decisions.plan.cluster_documents import cluster
from tests.shared.simulation.ledgers.test_constraints import cluster as cluster_with
from tests.support.clock.fake import FakeClock
from tests.support.planning.disruption import NOW
from tests.support.planning.recorded_days import Day

APART: dict[str, Any] = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": keys.HOSTNAME, "labelSelector": {}}
        ]
    }
}


def constraints(*words: str, apart: bool = True) -> Result:
    """Three nodes of 2 cores at $0.10, each with a pod of a quarter core that wants to be alone on its node."""
    documents = cluster(3, cpu="250m")
    for one in documents:
        if one["kind"] == "Pod" and apart:
            one["spec"]["affinity"] = APART
    given = yaml.safe_dump_all(documents)
    command = ["ledger", "constraints", "-f", "-", *words]
    return CliRunner().invoke(commands, command, input=given)


def test_the_table_says_what_each_rule_costs_an_hour_and_a_month() -> None:
    done = constraints()
    assert done.exit_code == 0, done.output
    heading, row, total = done.stdout.splitlines()
    assert heading.split()[:4] == ["WORKLOAD", "$/HOUR", "NOW", "RULE"]
    assert row.split() == ["default/ReplicaSet/web", "0.0375", "anti-affinity", "0.2000", "146.00"]
    assert total == "planned anew, the cluster costs $0.3000 an hour"


def test_json_and_csv_have_the_same_numbers() -> None:
    found = json.loads(constraints("-o", "json").stdout)
    (row,) = found["rules"]
    assert (row["rule"], row["pricePerHour"]) == ("anti-affinity", pytest.approx(0.2))
    assert (found["workloadsLeft"], found["nodesHeld"], found["podsWithoutAPlace"]) == (0, 0, 0)
    rows = list(csv.DictReader(io.StringIO(constraints("-o", "csv").stdout)))
    assert tuple(rows[0]) == COLUMNS
    assert float(rows[0]["pricePerMonth"]) == pytest.approx(146.0)


def test_a_cluster_without_rules_says_so() -> None:
    assert "no workload has a rule" in constraints(apart=False).stdout


def test_time_that_is_over_leaves_rules_out_and_says_so() -> None:
    snapshot = cluster_with({"do_not_disrupt": "true", "node_selector": {keys.ARCH: "amd64"}})
    clock = FakeClock()
    source = Source(snapshot, SolverSettings(), NOW)
    assert len(priced(source, clock, 1, 10.0).rules) == 3
    assert priced(source, clock, 0, 10.0).left == 1
    found = priced(source, clock, 1, -1.0)
    assert (len(found.rules), found.left) == (1, 1)


def test_a_recorded_cluster_is_that_of_its_time(tmp_path: Path) -> None:
    asyncio.run(Day(DirectoryStore(tmp_path), 3).run(6))
    words = ["ledger", "constraints", "--store", str(tmp_path), "--at", rfc3339(NOW + 500)]
    done = CliRunner().invoke(commands, words)
    assert (done.exit_code, done.stdout) == (
        0,
        "no workload has a rule that could cost anything\n",
    )


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--at", "1h"), "-f and --at are two clusters"),
        (("--policy", "Cheapest"), "policy must be FewestNodes or LowestCost"),
    ],
)
def test_options_that_do_not_fit_are_named(words: tuple[str, ...], text: str) -> None:
    assert text in str(constraints(*words).exception)
