"""The JSON document of a simulation: fields, units, order (docs/spec/design.md)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shared.errors import ConfigurationError
from shared.simulation.options import read_options
from tests.shared.simulation.documents import answer, instance_type, node, node_pool, pod

TAINT = {"key": "example.com/team", "value": "web", "effect": "NoSchedule"}
TOLERATION = {"key": "example.com/team", "operator": "Exists"}


def test_a_small_example_in_full() -> None:
    found = answer(
        pod("one", tolerations=[TOLERATION]),
        pod("two", tolerations=[TOLERATION], memory="1Gi"),
        pod("fits", cpu="1", memory="1Gi"),
        pod("huge", cpu="64", tolerations=[TOLERATION]),
        node(cpu="1", memory="2Gi"),
        node_pool(taints=[TAINT]),
        instance_type(),
        instance_type("m5.xlarge", 4, "16Gi"),
    )
    (machine,) = found["machines"]
    assert machine.pop("name").startswith("default-")
    seconds = found["stats"].pop("seconds")
    assert 0 <= seconds < 60
    reason = found["unschedulable"][0].pop("reason")
    assert "no instance type has enough resources" in reason
    assert {one["key"] for one in machine["requirements"]} >= {"karpenter.sh/nodepool"}
    assert machine.pop("requirements")[-1] == {
        "key": "node.kubernetes.io/instance-type",
        "operator": "In",
        "values": ["m5.large", "m5.xlarge"],
    }
    assert found.pop("cost")["hourly"] == 0.1
    assert found == {
        "machines": [
            {
                "nodePool": "default",
                "pods": ["default/two", "default/one"],
                "instanceTypes": ["m5.large", "m5.xlarge"],
                "requests": {"cpu": "1", "memory": "1536Mi", "pods": "2"},
                "taints": [TAINT],
                "offering": {
                    "instanceType": "m5.large",
                    "zone": "us-east-1a",
                    "capacityType": "on-demand",
                    "price": 0.1,
                },
            }
        ],
        "existing": [{"node": "node-1", "pods": ["default/fits"]}],
        "unschedulable": [{"pod": "default/huge"}],
        "stats": {"pods": 4, "classes": 4},
        "policy": "FewestNodes",
        "faults": [],
    }


def test_no_inputs_at_all_give_an_empty_plan() -> None:
    found = answer()
    assert (found["machines"], found["existing"], found["unschedulable"]) == ([], [], [])
    assert found["cost"]["hourly"] == 0
    assert found["stats"]["classes"] == 0


@pytest.mark.slow
def test_the_same_inputs_give_the_same_bytes_in_every_process() -> None:
    program = (
        "import json\n"
        "from tests.shared.simulation.test_answer import example\n"
        "print(json.dumps(example()))\n"
    )
    other = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert other.strip() == json.dumps(example())


def example() -> dict[str, Any]:
    """The answer for pods of different sizes, without ``seconds``, which differs between runs."""
    found = answer(*(pod(f"p-{i}", cpu=f"{i}00m") for i in range(1, 15)), node())
    del found["stats"]["seconds"]
    return found


def test_options_reach_the_planner() -> None:
    options = read_options(
        {
            "policy": "LowestCost",
            "effort": "50",
            "preference-policy": "Ignore",
            "min-values-policy": "BestEffort",
            "max-node-cpu": "32",
            "node-price": "0.02",
            "region": "eu-west-1",
            "expendable-pods-priority-cutoff": "-10",
        }
    )
    settings = options.settings
    assert settings.priority_cutoff == -10
    assert (settings.packing_policy, settings.effort) == ("LowestCost", 50)
    assert (settings.preference_policy, settings.min_values_policy) == ("Ignore", "BestEffort")
    assert (settings.most_node_cpu_milli, options.region) == (32_000, "eu-west-1")
    assert settings.node_price_micro_usd == 20_000


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("policy", "Cheapest"),
        ("effort", "-1"),
        ("effort", "1e3"),
        ("effort", "60001"),
        ("preference-policy", ""),
        ("min-values-policy", "strict"),
        ("max-node-cpu", "many"),
        ("max-node-cpu", "0"),
        ("node-price", "-0.1"),
        ("node-price", "cheap"),
        ("expendable-pods-priority-cutoff", "low"),
        ("expendable-pods-priority-cutoff", "-3000000000"),
        ("polcy", "LowestCost"),
    ],
)
def test_wrong_options_are_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        read_options({name: value})


def test_pods_below_the_cutoff_get_no_machines() -> None:
    found = answer(pod("low", priority=-11), pod("usual", priority=-10), priority_cutoff=-10)
    assert [one["pods"] for one in found["machines"]] == [["default/usual"]]
    assert found["unschedulable"] == []


def test_what_pools_keep_is_in_the_answer_beside_the_plan() -> None:
    """The plan's machine counts; what is free on it is no headroom for its own pods."""
    pool = node_pool()
    annotations = {"dovetail.sh/minimum": "nodes: 2", "dovetail.sh/headroom": "cpu: 1"}
    pool["metadata"]["annotations"] = annotations
    types = (instance_type(), instance_type("m5.xlarge", 4, "16Gi"))
    (kept,) = answer(pod("one", cpu="1500m"), pool, *types)["kept"]
    assert kept["short"] == "500m cpu, 1 node"
    assert [one["offering"]["instanceType"] for one in kept["machines"]] == ["m5.large"]
    assert kept["reason"] == ""
