"""The admission policies on a real API server: every expression is typed right, and decides as on the embedded one."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from local.stack_plan import PROJECT
from tests.support.cluster.admission_cases import CASES, Case
from tests.support.real_cluster.control_plane import ControlPlane
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kubernetes
FOLDER = str(PROJECT / "deploy" / "kubernetes" / "admission")
OURS = "nodepools,provisioners,ec2nodeclasses,nodeclaims"
WRITE = ("apply", "--validate=false", "-f", "-")


@pytest.fixture(scope="module")
def governed(plane: ControlPlane) -> Iterator[ControlPlane]:
    """With the kinds and the policies, and nothing of the rest that could write."""
    plane.kubectl("apply", "-f", str(PROJECT / "deploy" / "crds"))
    plane.kubectl("wait", "crd", "--all", "--for=condition=Established")
    plane.kubectl("apply", "-k", FOLDER)
    yield plane
    plane.kubectl("delete", "-k", FOLDER)


@pytest.fixture
def empty(governed: ControlPlane) -> Iterator[ControlPlane]:
    """No object of ours before and after."""
    yield governed
    governed.kubectl("delete", OURS, "--all", "--wait=true")


async def test_the_api_server_finds_no_fault_in_the_types(governed: ControlPlane) -> None:
    def checked() -> list[dict[str, object]]:
        found = json.loads(governed.kubectl("get", "validatingadmissionpolicies", "-o", "json"))
        statuses = [one.get("status", {}) for one in found["items"]]
        return statuses if all("typeChecking" in one for one in statuses) else []

    statuses = await wait_until(checked, "the types of all policies are checked", seconds=60)
    assert [one["typeChecking"] for one in statuses if one["typeChecking"]] == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)
async def test_a_write_is_accepted_or_refused_with_the_reason(
    empty: ControlPlane, case: Case
) -> None:
    for existing in case.before:
        empty.kubectl(*WRITE, stdin=json.dumps(existing))
    words = (*WRITE, "--dry-run=server")
    if not case.refusal:
        empty.kubectl(*words, stdin=json.dumps(case.write))
        return

    def refused() -> bool:  # a parameter counts when the policies' own watch has seen it
        return case.refusal in empty.kubectl(*words, stdin=json.dumps(case.write), check=False)

    await wait_until(refused, f"refusal: {case.refusal}", seconds=30)
