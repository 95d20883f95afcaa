"""What ``deploy/`` holds is taken whole by a real API server and its controllers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from local.stack_plan import PROJECT
from tests.support.real_cluster.control_plane import ControlPlane
from tests.support.real_cluster.stack import deploy
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kubernetes
CRDS = len(list((PROJECT / "deploy/crds").glob("*.yaml")))


@pytest.fixture(scope="module")
def whole(deployed: ControlPlane) -> ControlPlane:
    """Applied anew: the stories take the workloads away."""
    deploy(deployed)
    return deployed


def items(plane: ControlPlane, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(plane.kubectl("get", *words, "-o", "json"))["items"]
    return found


def test_every_definition_is_established_and_none_breaks_the_rules_for_schemas(
    whole: ControlPlane,
) -> None:
    found = items(whole, "crd")
    assert len(found) == CRDS
    for definition in found:
        states = {c["type"]: c["status"] for c in definition["status"]["conditions"]}
        assert states["Established"] == "True", definition["metadata"]["name"]
        assert states.get("NonStructuralSchema", "False") == "False"


def test_a_second_apply_finds_nothing_to_change(whole: ControlPlane) -> None:
    """Else each apply would start every pod anew, or fight with who writes the field."""
    said = whole.kubectl("apply", "-k", str(PROJECT / "deploy")).splitlines()
    changed = [line.partition("/")[0] for line in said if not line.endswith(" unchanged")]
    # kubectl sends their selector each time, and calls that a change; the API server does not.
    assert {*changed} <= {"poddisruptionbudget.policy"}
    budgets = items(whole, "pdb", "-n", "dovetail")
    assert {budget["metadata"]["generation"] for budget in budgets} == {1}


async def test_pods_of_every_deployment_pass_pod_security(whole: ControlPlane) -> None:
    """Both namespaces enforce a Pod Security Standard; a refused pod shows as a missing replica."""
    wanted = {
        d["metadata"]["name"]: d["spec"]["replicas"]
        for d in items(whole, "deploy", "-n", "dovetail")
    }
    assert len(wanted) == 7

    def created() -> bool:
        found = items(whole, "deploy", "-n", "dovetail")
        return {d["metadata"]["name"]: d["status"].get("replicas", 0) for d in found} == wanted

    await wait_until(
        created,
        "a pod for every replica",
        every=1,
        show=lambda: whole.kubectl("get", "events", "-n", "dovetail"),
    )
