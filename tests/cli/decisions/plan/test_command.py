"""``dovetail plan`` as people meet it: manifests and a cluster in files, a table, JSON or Markdown, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from cli.main import commands
from tests.cli.decisions.plan.cluster_documents import cluster, only_types, pool
from tests.shared.simulation.documents import Document, controller


@pytest.fixture
def written(tmp_path: Path) -> Path:
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all(cluster()))
    return tmp_path


def plan(folder: Path, *manifests: Document, words: tuple[str, ...] = ()) -> Result:
    against = str(folder / "cluster.yaml")
    return CliRunner().invoke(
        commands,
        ["plan", "-f", "-", "--against", against, *words],
        input=yaml.safe_dump_all(manifests),
    )


def answer(folder: Path, *manifests: Document, words: tuple[str, ...] = ()) -> dict[str, Any]:
    done = plan(folder, *manifests, words=(*words, "-o", "json"))
    assert done.exit_code in (0, 2), done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_manifest_that_changes_nothing_ends_with_0(written: Path) -> None:
    done = plan(written, pool())
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("No machine, pod or price changes.")


def test_manifests_without_an_object_are_no_plan(written: Path) -> None:
    """As where a template renders nothing: a check in CI must not pass by it."""
    done = plan(written)
    assert done.exit_code == 1
    assert "dovetail: no object in -" in done.stderr


def test_a_document_without_kind_is_named_as_such(written: Path) -> None:
    done = plan(written, {"colour": "blue"})
    assert done.exit_code == 1
    assert "dovetail: a document without kind and name: kind: is required" in done.stderr


def test_drift_is_planned_one_machine_after_another_as_the_budget_says(written: Path) -> None:
    """A budget of one machine: three replacements, each 60 s to join and 30 s to drain."""
    found = answer(written, pool(labels={"team": "a"}))
    assert [one["drift"] for one in found["machines"]] == ["NodePoolDrifted"] * 3
    assert [(one["begins"], one["ends"]) for one in found["machines"]] == [
        (0.0, 90.0),
        (90.0, 180.0),
        (180.0, 270.0),
    ]
    assert all(len(one["replacements"]) == 1 for one in found["machines"])
    assert found["cost"]["now"] == pytest.approx(0.3)
    assert found["cost"]["after"] == pytest.approx(0.3)
    assert found["disrupted"] == {"machines": 3, "of": 3}
    assert found["seconds"] == 270.0


def test_the_table_and_the_exit_code_say_that_machines_go(written: Path) -> None:
    done = plan(written, pool(labels={"team": "a"}))
    assert done.exit_code == 2
    lines = done.stdout.splitlines()
    assert lines[0] == "NodePool/default: spec.template.metadata"
    assert lines[2].split() == [
        "node-0", "default", "replace", "NodePoolDrifted", "0.1000", "1",
        "m5.large", "us-east-1a", "on-demand", "$0.1000", "0", "s", "90", "s",
    ]  # fmt: skip
    assert "3 of 3 machines disrupted within 4 min" in lines[-1]


def test_markdown_begins_with_the_summary(written: Path) -> None:
    done = plan(written, pool(labels={"team": "a"}), words=("-o", "markdown"))
    assert done.stdout.startswith("**$0.3000 per hour now, $0.3000 after (+0.0 %)")
    assert "| node-0 | default | replace | NodePoolDrifted |" in done.stdout


def test_with_a_larger_budget_a_replacement_need_not_wait_for_the_end_of_the_last_drain(
    written: Path,
) -> None:
    """The next machine is replaced as soon as the last replacement is ready, on which its pods might have room."""
    found = answer(written, pool(labels={"team": "a"}, budgets=[{"nodes": "100%"}]))
    assert [one["begins"] for one in found["machines"]] == [0.0, 60.0, 120.0]
    assert found["seconds"] == 210.0


def test_a_requirement_that_the_machines_do_not_meet_replaces_them(written: Path) -> None:
    found = answer(written, pool(requirements=[only_types("m5.xlarge")]))
    assert {one["drift"] for one in found["machines"]} == {"RequirementsDrifted"}
    assert found["machines"][0]["replacements"][0]["instanceType"] == "m5.xlarge"
    assert found["cost"]["after"] != found["cost"]["now"]


def test_consolidation_that_is_switched_on_removes_the_dear_machines(tmp_path: Path) -> None:
    """Three nodes of 8 cores with half a core in use each become one small node."""
    held = cluster(3, kind="m5.2xlarge", cpu="500m")
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all(held))
    changed = pool()
    changed["spec"]["disruption"] = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}
    found = answer(tmp_path, changed)
    assert found["cost"]["now"] == pytest.approx(1.2)
    assert found["cost"]["after"] == pytest.approx(0.1)
    assert {one["reason"] for one in found["machines"]} == {"Underutilized"}
    assert found["disrupted"]["machines"] == 3


def test_the_delay_of_a_pool_spaces_what_consolidation_removes(tmp_path: Path) -> None:
    """Each of the two empty machines goes by itself, the second ten minutes after the first."""
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all(cluster(2, cpu="")))
    changed = pool()
    changed["spec"]["disruption"] = {"consolidateAfter": "0s", "budgets": [{"nodes": "1"}]}
    soon = [one["begins"] for one in answer(tmp_path, changed)["machines"]]
    changed["metadata"]["annotations"] = {"dovetail.sh/scale-down-delay-after-delete": "10m"}
    late = [one["begins"] for one in answer(tmp_path, changed)["machines"]]
    assert soon[1] - soon[0] < 60.0
    assert 600.0 <= late[1] - late[0] < 700.0


def test_what_happens_anyway_is_no_effect_of_the_manifests(tmp_path: Path) -> None:
    consolidating = pool()
    consolidating["spec"]["disruption"] = {
        "consolidateAfter": "0s",
        "budgets": [{"nodes": "100%"}],
    }
    held = cluster(3, consolidating, kind="m5.2xlarge", cpu="500m")
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all(held))
    done = plan(tmp_path, consolidating)
    assert done.exit_code == 0, done.output
    assert "Underutilized (anyway)" in done.stdout
    kept = answer(tmp_path, pool())
    assert len(kept["notAnyMore"]) == 3
    assert kept["machines"] == []


def test_a_drifted_machine_that_a_budget_of_pods_holds_stays_and_is_named(tmp_path: Path) -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"selector": {}, "minAvailable": 3},
        "status": {"disruptionsAllowed": 0},
    }
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all([*cluster(1), budget]))
    found = answer(tmp_path, pool(labels={"team": "a"}))
    (staying,) = found["staying"]
    assert (staying["node"], staying["drift"]) == ("node-0", "NodePoolDrifted")
    assert "pdb prevents pod evictions" in staying["why"]


def test_pods_that_no_machine_would_take_any_more_are_named(written: Path) -> None:
    """The pool allows nothing that is large enough: the machines stay, and their pods could not be placed again."""
    found = answer(written, pool(limits={"cpu": "2"}))
    assert found["machines"] == []
    assert len(found["unschedulable"]) == 2
    assert "limit" in found["unschedulable"][0]["reason"]


def test_a_budget_without_room_never_ends_and_says_so(written: Path) -> None:
    found = answer(written, pool(labels={"team": "a"}, budgets=[{"nodes": "0"}]))
    assert found["machines"] == []
    assert len(found["staying"]) == 3
    assert "budgets allow no disruption" in found["staying"][0]["why"]


def test_a_budget_with_a_schedule_waits_for_its_end(written: Path) -> None:
    """Nothing during 23 hours of each day: the replacement begins in the hour that is left."""
    closed = [{"nodes": "0", "schedule": "0 1 * * *", "duration": "23h"}, {"nodes": "100%"}]
    found = answer(written, pool(labels={"team": "a"}, budgets=closed))
    assert len(found["machines"]) == 3
    assert found["seconds"] <= 24 * 3600


def test_a_workload_with_more_replicas_buys_machines(written: Path) -> None:
    made = controller("Deployment", "more", replicas=8)
    found = answer(written, made)
    assert found["launched"]
    assert found["cost"]["after"] > found["cost"]["now"]
    assert found["changes"] == [{"object": "Deployment/default/more", "new": True, "fields": []}]


@pytest.mark.parametrize(
    ("limit", "code"),
    [
        ("disrupted>20%", 1),
        ("disrupted>3", 2),
        ("cost>+5%", 2),
        ("unschedulable>0,disrupted>99%", 1),
    ],
)
def test_a_limit_that_is_exceeded_ends_with_1(written: Path, limit: str, code: int) -> None:
    done = plan(written, pool(labels={"team": "a"}), words=("--fail-on", limit))
    assert done.exit_code == code, done.output
    assert ("exceeded" in done.stderr) is (code == 1)


@pytest.mark.parametrize(
    "words",
    [("--fail-on", "price>3"), ("--fail-on", "staying>3%"), ("--feature-gates", "Nonsense=true")],
)
def test_a_wrong_option_is_named(written: Path, words: tuple[str, ...]) -> None:
    done = plan(written, pool(), words=words)
    assert words[0] in str(done.exception)


def test_a_misspelt_option_does_not_look_like_changes(written: Path) -> None:
    assert plan(written, pool(), words=("--fail-onn", "cost>3")).exit_code == 1


def test_a_fault_of_a_manifest_ends_with_1_and_names_the_field(written: Path) -> None:
    wrong = pool()
    wrong["spec"]["template"]["spec"]["requirements"] = "none"
    done = plan(written, wrong)
    assert done.exit_code == 1
    assert "NodePool/default: spec.template.spec.requirements" in done.stderr


def test_selectors_that_only_aws_knows_are_noted(written: Path) -> None:
    from tests.shared.simulation.documents import ec2_node_class

    changed = ec2_node_class(amiSelectorTerms=[{"id": "ami-0123456789abcdef0"}], amiFamily="AL2023")
    found = answer(written, changed)
    (note,) = found["notes"]
    assert note == (
        "EC2NodeClass/default: what spec.amiSelectorTerms selects is known in AWS only: if it is something else than "
        "now, 3 machines of the class will drift and be replaced beside what is planned here"
    )
    assert found["mayDrift"] == 3


def test_a_change_whose_effect_only_aws_knows_is_not_called_nothing(written: Path) -> None:
    """It said that no machine changes, and in the next line that machines may drift; a pipeline went on with 0."""
    from tests.shared.simulation.documents import ec2_node_class

    changed = ec2_node_class(amiSelectorTerms=[{"id": "ami-0123456789abcdef0"}], amiFamily="AL2023")
    done = plan(written, changed)
    assert done.exit_code == 2
    assert "Nothing changes but what AWS alone knows (see the note)." in done.stdout
    assert "No machine, pod or price changes" not in done.stdout


STATIC = ("--feature-gates", "StaticCapacity=true")


@pytest.fixture
def static(tmp_path: Path) -> Path:
    """A cluster with two machines of a static pool, as many as it is to have."""
    documents = cluster(nodes=2, of=pool(replicas=2), cpu="")
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all(documents))
    return tmp_path


def test_more_replicas_of_a_static_pool_are_machines_to_launch(static: Path) -> None:
    found = answer(static, pool(replicas=5), words=STATIC)
    assert [(one["pool"], one["at"]) for one in found["launched"]] == [("NodePool/default", 0)] * 3
    assert found["cost"]["after"] == pytest.approx(0.5)
    assert found["disrupted"]["machines"] == 0
    done = plan(static, pool(replicas=5), words=STATIC)
    assert done.exit_code == 2
    assert "NodePool/default for its replicas" in done.stdout


def test_fewer_replicas_of_a_static_pool_remove_machines_whatever_the_budgets_say(
    static: Path,
) -> None:
    fewer = pool(replicas=0, budgets=[{"nodes": "0"}])
    found = answer(static, fewer, words=STATIC)
    assert [(one["reason"], one["ends"]) for one in found["machines"]] == [("Surplus", 30.0)] * 2
    assert found["cost"]["after"] == 0
    assert found["disrupted"]["machines"] == 2


def test_a_static_pool_as_it_is_to_be_changes_nothing(static: Path) -> None:
    assert plan(static, pool(replicas=2), words=STATIC).exit_code == 0


def test_a_drifted_machine_of_a_static_pool_is_replaced_one_for_one(static: Path) -> None:
    found = answer(static, pool(replicas=2, labels={"team": "a"}), words=STATIC)
    assert [len(one["replacements"]) for one in found["machines"]] == [1, 1]
    assert (found["launched"], found["staying"]) == ([], [])


def test_without_its_gate_a_static_pool_is_told_how_it_counts(static: Path) -> None:
    (note,) = answer(static, pool(replicas=5))["notes"]
    assert note.startswith("NodePool/default is static: its machines count with --feature-gates")
    found = answer(static, pool(replicas=2, labels={"team": "a"}))
    assert {one["why"].partition(",")[0] for one in found["staying"]} == {"its pool is static"}
    assert answer(static, pool(replicas=2))["notes"] == []
