"""``dovetail explain pod`` as people meet it."""

from __future__ import annotations

import json
from typing import Any

import yaml
from typer.testing import CliRunner, Result

from cli.decisions.explain_pod import lines
from cli.main import commands
from tests.shared.simulation.documents import Document, instance_type, node_pool, pod

TAINT = {"key": "example.com/gpu", "value": "yes", "effect": "NoSchedule"}


def explain(*words: str, objects: tuple[Document, ...]) -> Result:
    given = yaml.safe_dump_all([*objects, instance_type()])
    return CliRunner().invoke(commands, ["explain", "pod", *words, "-f", "-"], input=given)


def test_the_smallest_change_is_printed_with_its_field() -> None:
    done = explain("web", objects=(pod(), node_pool(taints=[TAINT])))
    assert done.exit_code == 0, done.output
    assert "did not tolerate taint example.com/gpu=yes:NoSchedule" in done.stdout
    assert "-> Pod default/web: tolerate the taint example.com/gpu=yes:NoSchedule" in done.stdout
    assert 'spec.tolerations: add {"key": "example.com/gpu"' in done.stdout


def test_programs_get_the_whole_document() -> None:
    done = explain("web", "-n", "default", "-o", "json", objects=(pod(cpu="64"), node_pool()))
    found: dict[str, Any] = json.loads(done.stdout)
    assert (found["pod"], found["state"]) == ("default/web", "pending")
    assert [one["text"] for one in found["changes"]] == ["lower the request for cpu from 64 to 2"]


def test_a_pod_that_is_placed_next_needs_nothing() -> None:
    assert "nothing has to change" in explain("web", objects=(pod(), node_pool())).stdout


def test_a_machine_that_is_gone_before_it_is_ready_is_no_place() -> None:
    """`explain pool` says the same of the pool."""
    pool = node_pool()
    pool["spec"]["template"]["spec"]["expireAfter"] = "0s"
    said = explain("web", objects=(pod(), pool)).stdout
    assert "nothing has to change" not in said
    assert "it never runs there: NodePool/default: its machines are too old after less than" in said


def test_a_pod_that_the_files_lack_is_an_error_with_the_next_step() -> None:
    done = explain("somebody", objects=(pod(), node_pool()))
    assert done.exit_code == 1
    assert "no pod in the files is named" in str(done.exception)


def test_a_name_of_two_namespaces_is_an_error_that_names_both() -> None:
    done = explain("web", objects=(pod(), pod(meta={"namespace": "shop"})))
    assert "shop/web" in str(done.exception)


def test_of_many_pools_the_nearest_are_printed() -> None:
    many = [{"pool": f"NodePool/p{n}", "lacks": "x", "changes": []} for n in range(7)]
    answer = {
        "pod": "a/b",
        "state": "pending",
        "node": "",
        "verdict": "v",
        "pools": many,
        "notExamined": ["NodePool/q"],
    }
    printed = "\n".join(line.plain for line in lines(answer))
    assert "NodePool/p4" in printed
    assert "NodePool/p5" not in printed
    assert "and 2 more pools" in printed
    assert "Not examined, too many pools: NodePool/q" in printed
