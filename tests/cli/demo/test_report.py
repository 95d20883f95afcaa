"""The JSON report: its shape is a contract (docs/spec/design.md)."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from cli.demo import cluster_autoscaler
from cli.demo.display import print_report
from cli.demo.report import Report, write_report
from cli.demo.settings import DemoSettings
from cli.demo.snapshot import NodeView
from cli.demo.stage import Check
from cli.demo.timeline import Entry, Phase
from shared.errors import ConfigurationError

NODE = NodeView(
    name="ip-1",
    provider_id="aws:///us-west-2a/i-1",
    instance_type="m5.16xlarge",
    zone="us-west-2a",
    capacity_type="spot",
    price_per_hour=0.9,
    pods=400,
    ready=True,
    cordoned=False,
    leaving=False,
)


def report(*, failure: str = "", check: bool = True) -> Report:
    estimate = cluster_autoscaler.estimate(400, 250, 2**28)
    return Report(
        scenario="burst-400",
        failure=failure,
        seconds=42.1234567,
        pods=(400, 400, 0),
        nodes=(NODE,),
        launched=1,
        terminated=1,
        timeline=(Entry(0.5, "node joined", "node/ip-1"),),
        phases=(Phase("all 400 pods run", 0.0, 12.5),),
        checks=(Check("added nodes", check, "1"),),
        settings=tuple(DemoSettings().rows()),
        comparison=estimate,
    )


def test_the_report_has_the_fields_that_checks_rely_on(tmp_path: Path) -> None:
    write_report(tmp_path / "r.json", report())
    document = json.loads((tmp_path / "r.json").read_text())
    assert document["scenario"] == "burst-400"
    assert document["ok"] is True
    assert document["seconds"] == 42.123
    assert document["pods"] == {"total": 400, "running": 400, "pending": 0}
    assert document["nodes"] == [
        {
            "name": "ip-1",
            "instanceType": "m5.16xlarge",
            "zone": "us-west-2a",
            "capacityType": "spot",
            "pricePerHour": 0.9,
            "pods": 400,
        }
    ]
    assert document["terminated"] == 1
    assert document["hourlyCost"] == 0.9
    assert document["timeline"] == [{"at": 0.5, "event": "node joined", "object": "node/ip-1"}]
    assert document["comparison"]["nodes"] == 27
    assert document["settings"]["ttlSecondsAfterEmpty"] == "10"


@pytest.mark.parametrize(
    ("on_bought", "told"),
    [
        (400, "1 node for 400 of 400 pods, $"),
        (393, "400 pods (7 of them on existing nodes), $"),
    ],
)
def test_pods_that_needed_no_new_node_are_told(on_bought: int, told: str) -> None:
    console = Console(file=io.StringIO(), width=120)
    print_report(console, replace(report(), nodes=(replace(NODE, pods=on_bought),)))
    assert told in console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("outcome", [report(failure="no node"), report(check=False)])
def test_a_failed_phase_or_check_makes_the_report_not_ok(outcome: Report) -> None:
    assert outcome.to_json()["ok"] is False


def test_a_report_that_cannot_be_written_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="--report"):
        write_report(tmp_path / "missing" / "r.json", report())
