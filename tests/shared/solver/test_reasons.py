"""The exact texts of verdicts (SCH-33, SCH-42..SCH-45)."""

from __future__ import annotations

from typing import Any

import pytest

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.solver import reasons
from shared.solver.reasons import Filtering, amounts, no_instance_type
from shared.solver.volumes.attachments import Attachments
from tests.support.planning.builders import (
    COMPUTE_REQUIREMENTS,
    ZONES,
    make_catalogue,
    make_daemon_set,
    make_pod,
    make_pool,
    make_snapshot,
    make_type,
    real_snapshot,
)
from tests.support.planning.snapshots import plan_for

CASES = {
    "no instance type met the scheduling requirements or had enough resources"
    " or had a required offering": "------",
    "no instance type met the scheduling requirements or had enough resources": "--o---",
    "no instance type met the scheduling requirements or had a required offering": "-f----",
    "no instance type had enough resources or had a required offering": "r-----",
    "no instance type met all requirements": "-fo--x",
    "no instance type has enough resources": "r-o-x-",
    "no instance type has the required offering": "rf-x--",
    "no instance type which met the scheduling requirements and had enough resources,"
    " had a required offering": "rfox--",
    "no instance type which had enough resources and the required offering"
    " met the scheduling requirements": "rfo--x",
    "no instance type which met the scheduling requirements and the required offering"
    " had the required resources": "rfo-x-",
    "no instance type met the requirements/resources/offering tuple": "rfo---",
}


@pytest.mark.parametrize(("text", "met"), CASES.items())
def test_sch_43_the_most_specific_sentence(text: str, met: str) -> None:
    """``met``: requirements, fits, offering, and their pairs rf, ro, fo."""
    assert no_instance_type(Filtering(*(c != "-" for c in met)), 100) == text


def test_sch_45_an_absurd_cpu_request_gets_a_hint() -> None:
    text = plan_for(make_snapshot(make_pod(cpu="1500000"))).unschedulable["uid-pod"]
    assert "(no instance type has enough resources (CPU request >= 1 million" in text


@pytest.mark.parametrize(
    ("pod", "cause"),
    [
        ({"cpu": "500"}, "no instance type has enough resources"),
        (
            {"node_selector": {keys.AWS_PREFIX + "instance-family": "z9"}},
            "no instance type met all requirements",
        ),
        (
            {"node_selector": {keys.AWS_PREFIX + "instance-size": "small"}, "cpu": "20"},
            "no instance type which had enough resources and the required offering"
            " met the scheduling requirements",
        ),
    ],
)
def test_sch_43_texts_come_out_of_a_plan(pod: dict[str, Any], cause: str) -> None:
    types = (make_type("m5.small", 2, 8), make_type("m5.huge", 64, 256))
    plan = plan_for(make_snapshot(make_pod(**pod), catalogue=make_catalogue(types)))
    assert f"({cause})" in plan.unschedulable["uid-pod"]


def test_sch_43_all_offerings_unavailable() -> None:
    types = (make_type("m5.large"),)
    gone = frozenset({(keys.ON_DEMAND, "m5.large", zone) for zone in ZONES})
    snapshot = make_snapshot(make_pod(), catalogue=make_catalogue(types), unavailable=gone)
    text = plan_for(snapshot).unschedulable["uid-pod"]
    assert "(no instance type has the required offering)" in text


def test_sch_44_scenario_41_names_resources_and_requirements() -> None:
    """A pod that needs a branch interface, where no allowed type has one."""
    allowed = Expression(keys.INSTANCE_TYPE, "In", ("t3.medium", "t3.large"))
    pool = make_pool("test-nodepool", requirements=(*COMPUTE_REQUIREMENTS[:3], allowed))
    pod = make_pod(cpu="500m", memory="1Gi")
    eni = {**pod.requests, "vpc.amazonaws.com/pod-eni": 1}
    daemons = (make_daemon_set(cpu="310m", memory="272Mi"),)
    snapshot = real_snapshot(make_pod(requests=eni), pools=(pool,), daemon_sets=daemons)
    assert plan_for(snapshot).unschedulable["uid-pod"] == (
        'incompatible with provisioner "test-nodepool",'
        ' daemonset overhead={"cpu":"310m","memory":"272Mi","pods":"1"},'
        ' no instance type satisfied resources {"cpu":"810m","memory":"1296Mi","pods":"2",'
        '"vpc.amazonaws.com/pod-eni":"1"} and requirements karpenter.sh/capacity-type In'
        " [on-demand], karpenter.sh/provisioner-name In [test-nodepool], kubernetes.io/arch In"
        " [amd64], kubernetes.io/os In [linux], node.kubernetes.io/instance-type In"
        " [t3.large t3.medium] (no instance type which had enough resources and the required"
        " offering met the scheduling requirements)"
    )


def test_amounts_are_compact_json_without_zeros() -> None:
    assert amounts({"pods": 7, "cpu": 310, "memory": 0}) == '{"cpu":"310m","pods":"7"}'


def test_sch_55_what_an_existing_node_lacks_has_karpenters_words() -> None:
    """Dashboards and users search for the beginnings of these texts."""
    full = Attachments(limits={"ebs.csi.aws.com": 1}, held={"ebs.csi.aws.com": {"default/a"}})
    texts = (
        reasons.EXCEEDS_NODE,
        full.excess([("ebs.csi.aws.com", "default/b")]),
        reasons.port_conflict(("UDP", "", 53)),
        reasons.untolerated("dedicated=gpu:NoSchedule"),
    )
    assert texts == (
        "exceeds node resources",
        "checking volume usage, 2 volumes of ebs.csi.aws.com exceed the limit 1",
        "checking host port usage, UDP port 53 on 0.0.0.0 is in use",
        "did not tolerate taint dedicated=gpu:NoSchedule",
    )


def test_pods_with_equal_verdicts_share_one_text() -> None:
    """With many pools a verdict has thousands of characters, and thousands of pods may wait."""
    nowhere = {"team": "nobody"}
    pods = [
        make_pod(name, uid=f"uid-{name}", cpu=cpu, node_selector=nowhere)
        for name, cpu in (("small", "100m"), ("large", "2"))
    ]
    small, large = plan_for(real_snapshot(*pods)).unschedulable.values()
    assert small is large
