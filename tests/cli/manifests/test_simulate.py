"""``dovetail simulate`` as people meet it: files in, a table or JSON out, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from cli.main import commands
from cli.manifests.simulate import planner_options
from shared.errors import ConfigurationError
from shared.simulation.options import read_options
from tests.shared.simulation.documents import (
    controller,
    instance_type,
    node,
    node_pool,
    offering,
    pod,
    provisioner,
)


def simulate(*words: str, stdin: str | bytes = "") -> Result:
    return CliRunner().invoke(commands, ["simulate", *words], input=stdin)


def text(*documents: Any) -> str:
    return yaml.safe_dump_all(documents)


def answer(*words: str, stdin: str | bytes = "") -> dict[str, Any]:
    done = simulate(*words, "-o", "json", stdin=stdin)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_static_pool_is_said_to_be_left_out() -> None:
    """Zero machines would pass for what it will cost."""
    static = node_pool("static")
    static["spec"]["replicas"] = 3
    types = instance_type("m5.xlarge", 4, "16Gi")
    done = simulate("-f", "-", stdin=text(static, node_pool(), types, pod()))
    assert done.exit_code == 0
    assert "static pools (NodePool/static), which are as many as spec.replicas says" in done.stderr
    done = simulate("-f", "-", stdin=text(node_pool(), types, pod()))
    assert "static" not in done.stderr


def test_help_has_examples_and_an_instance_type() -> None:
    done = simulate("--help")
    assert done.exit_code == 0
    assert "dovetail simulate -f" in done.stdout
    assert '"kind": "InstanceType"' in done.stdout


def test_the_table_shows_machines_nodes_reasons_and_cost() -> None:
    objects = (
        controller("Deployment", replicas=4),
        pod("huge", cpu="640"),
        pod("fits", cpu="100m"),
        node(cpu="100m"),
        node_pool(),
        instance_type("m5.xlarge", 4, "16Gi"),
    )
    done = simulate("-f", "-", stdin=text(*objects, {"kind": "Service", "metadata": {"name": "a"}}))
    assert done.exit_code == 0
    heading, machine, existing, pending, other, summary = done.stdout.splitlines()
    assert heading.split() == [
        "MACHINE",
        "POOL",
        "TYPE",
        "ZONE",
        "CAPACITY",
        "$/H",
        "PODS",
        "CPU",
        "MEMORY",
    ]
    assert machine.split()[1:] == [
        "default",
        "m5.xlarge",
        "us-east-1a",
        "on-demand",
        "0.1000",
        "4",
        "2",
        "2Gi",
    ]
    assert existing == "existing node-1: 1 pod"
    assert pending.startswith("pending default/huge: ")
    assert "no instance type has enough resources" in pending
    assert other == "LowestCost instead: 1 machine, $0.1000 per hour (+0.0 %)"
    assert summary.startswith("1 machine, $0.1000 per hour")
    assert "not part of planning: Service 1" in done.stderr


def test_pods_with_one_reason_share_a_line() -> None:
    done = simulate("-f", "-", stdin=text(controller("Deployment", replicas=9), instance_type()))
    pending = [line for line in done.stdout.splitlines() if line.startswith("pending")]
    assert len(pending) == 1
    assert (
        "default/web-00002 and 6 more: no Provisioner or NodePool without faults exists"
        in pending[0]
    )


def test_files_directories_lists_and_json_are_read(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "pool.yaml").write_text(text(node_pool()))
    (tmp_path / "types.json").write_text(json.dumps(instance_type()))
    listed = tmp_path / "list.yaml"
    listed.write_text(text({"apiVersion": "v1", "kind": "List", "items": [pod("a"), pod("b")]}))
    found = answer("-f", str(tmp_path), "-f", "-", stdin=text(pod("c")))
    assert found["machines"][0]["pods"] == ["default/a", "default/b", "default/c"]


@pytest.mark.slow
def test_without_a_catalogue_the_types_of_us_east_1_are_used() -> None:
    """P-19: a Provisioner that says nothing means on-demand c, m and r above generation 2."""
    found = answer("-f", "-", stdin=text(provisioner(), controller("Deployment", replicas=40)))
    (machine,) = found["machines"]
    assert machine["offering"]["zone"].startswith("us-east-1")
    assert machine["offering"]["instanceType"][0] in "cmr"
    assert machine["offering"]["price"] > 0


@pytest.mark.slow
def test_without_a_region_that_of_the_zones_is_taken() -> None:
    irish = pod(nodeSelector={"topology.kubernetes.io/zone": "eu-west-1b"})
    done = simulate("-f", "-", "-o", "json", stdin=text(provisioner(), irish))
    assert "eu-west-1" in done.stderr
    (machine,) = json.loads(done.stdout)["machines"]
    assert machine["offering"]["zone"] == "eu-west-1b"


def test_a_region_that_is_not_that_of_the_zones_is_told() -> None:
    irish = pod(nodeSelector={"topology.kubernetes.io/zone": "eu-west-1b"})
    done = simulate("-f", "-", "--region", "us-east-1", stdin=text(provisioner(), irish))
    assert "the inputs name zones of eu-west-1" in done.stderr


def test_an_unknown_region_is_a_mistake_in_words() -> None:
    done = simulate("-f", "-", "--region", "the moon", stdin=text(pod()))
    assert done.exit_code == 1
    assert "is no AWS region" in str(done.exception)


def test_options_are_taken() -> None:
    words = ("--policy", "LowestCost", "--effort", "10", "--max-node-cpu", "8")
    more = ("--preference-policy", "Ignore", "--min-values-policy", "BestEffort")
    found = answer("-f", "-", *words, *more, stdin=text(pod(), node_pool(), instance_type()))
    assert found["policy"] == "LowestCost"
    assert len(found["machines"]) == 1


@pytest.mark.parametrize("policy", ["LowestCost", "Balanced"])
def test_it_is_said_when_a_policy_finds_no_cheaper_machines_than_fewest_nodes(policy: str) -> None:
    objects = text(pod(), node_pool(), instance_type())
    (pool,) = answer("-f", "-", "--policy", policy, stdin=objects)["asFewestNodes"].items()
    assert pool == ("NodePool/default", policy)
    lines = simulate("-f", "-", "--policy", policy, stdin=objects).stdout.splitlines()
    assert (
        f"NodePool/default: {policy} found no cheaper machines than FewestNodes; these are its machines"
        in lines
    )
    assert "asFewestNodes" not in answer("-f", "-", stdin=objects)


def test_balanced_and_a_node_price_are_taken() -> None:
    types = (
        instance_type(),
        instance_type("m5.8xlarge", 32, "128Gi", offerings=[offering(price=4.0)]),
    )
    pods = [pod(f"p{i}", cpu="1500m") for i in range(8)]
    objects = text(*pods, node_pool(), *types)
    words = ("--policy", "Balanced", "--node-price")
    assert len(answer("-f", "-", *words, "0", stdin=objects)["machines"]) == 8
    found = answer("-f", "-", *words, "10", stdin=objects)
    assert (found["policy"], len(found["machines"])) == ("Balanced", 1)
    assert found["cost"]["hourly"] == 4.0


@pytest.mark.parametrize("words", [("--policy", "Cheapest"), ("-o", "xml"), ("--effort", "x")])
def test_wrong_options_are_refused(words: tuple[str, ...]) -> None:
    assert simulate("-f", "-", *words, stdin="").exit_code == 2


def test_faults_are_told_and_the_rest_is_planned() -> None:
    types = [instance_type(offerings=[offering(price=-1)]), instance_type("m5.xlarge", 4)]
    done = simulate("-f", "-", stdin=text(pod(), node_pool(), *types))
    assert done.exit_code == 0
    assert "m5.xlarge" in done.stdout
    told = "fault: InstanceType/m5.large: spec.offerings[0].price: must not be negative"
    assert told in done.stderr


def test_wrong_yaml_is_a_fault_with_its_line() -> None:
    found = answer("-f", "-", stdin=text(pod(), node_pool(), instance_type()) + "---\na: [\n")
    assert len(found["machines"]) == 1
    (fault,) = found["faults"]
    assert fault["name"].startswith("stdin:")
    assert "is not YAML" in fault["message"]


@pytest.mark.parametrize(
    "stdin", ["", "a: [", "kind: Pod\n", "kind: Service\nmetadata: {name: a}\n"]
)
def test_nothing_usable_ends_with_code_1(stdin: str) -> None:
    done = simulate("-f", "-", "-o", "json", stdin=stdin)
    assert done.exit_code == 1
    assert "no object" in done.stderr, "an empty file has no fault that would say so"


def test_what_cannot_be_read_ends_with_code_2_and_no_plan(tmp_path: Path) -> None:
    done = simulate("-f", str(tmp_path / "missing.yaml"), "-f", "-", stdin=text(pod()))
    assert (done.exit_code, done.stdout) == (2, "")
    assert "missing.yaml: No such file or directory" in done.stderr


def test_nothing_is_sent_to_the_terminal_that_it_would_obey() -> None:
    done = simulate("-f", "-", stdin='kind: "Pod"\nmetadata: {name: "\\e[31m\\u202Ex"}\n')
    assert "\x1b" not in done.output
    assert "\u202e" not in done.output


def test_options_that_are_not_given_are_those_of_the_planner() -> None:
    assert planner_options(region=None, effort=None, max_node_cpu=None) == read_options({})
    chosen = planner_options(region="us-west-2", policy="LowestCost", effort=0, max_node_cpu="4")
    assert chosen.region == "us-west-2"
    assert (chosen.settings.effort, chosen.settings.most_node_cpu_milli) == (0, 4_000)


def test_an_option_is_refused_by_its_name_on_the_command_line() -> None:
    with pytest.raises(ConfigurationError, match="max-node-cpu"):
        planner_options(max_node_cpu="0")
