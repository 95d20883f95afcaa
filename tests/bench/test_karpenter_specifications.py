"""The harness that runs Karpenter's own specifications: what it changes, what it answers, and how it judges a run."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from bench.comparison.karpenter.outcome import judged, lines, read_known, read_report
from bench.comparison.karpenter.planner import NAME, planner
from bench.comparison.karpenter.source import SUITES, Refused, patient, renamed, with_any_patch

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "web", "resources": {"requests": {"cpu": "1"}}}]},
}
POOL = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "default"},
    "spec": {
        "template": {
            "spec": {
                "nodeClassRef": {
                    "group": "karpenter.k8s.aws",
                    "kind": "EC2NodeClass",
                    "name": "default",
                },
                "requirements": [
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}
                ],
            }
        }
    },
}


def specification(text: str, state: str, *containers: str) -> dict[str, object]:
    """One of a Ginkgo report."""
    failure = {
        "Message": "Expected\n  1\nto equal 2",
        "Location": {"FileName": "/a/suite_test.go", "LineNumber": 7},
    }
    return {
        "ContainerHierarchyTexts": list(containers),
        "LeafNodeType": "It",
        "LeafNodeText": text,
        "State": state,
        **({} if state == "passed" else {"Failure": failure}),
    }


def test_a_report_has_each_specification_that_ran_with_its_failure(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    specifications = [
        specification("is fast", "passed", "Planner"),
        specification("is cheap", "failed", "Planner", "Costs"),
        specification("is cheap", "passed", "Planner", "Costs"),
        specification("is alpha", "skipped"),
        {**specification("", "passed"), "LeafNodeType": "BeforeSuite"},
    ]
    report.write_text(json.dumps([{"SpecReports": specifications}]))
    assert read_report(report) == {
        "Planner is fast": "",
        "Planner Costs is cheap": "failed suite_test.go:7: Expected 1 to equal 2",
        "Planner Costs is cheap #2": "",
    }


def test_failures_with_a_reason_are_known_and_all_others_are_not() -> None:
    outcome = judged(
        {"is a": "", "is b": "failed", "is c": "failed", "is d": ""},
        {"metrics": ["b", "d", "elsewhere"]},
    )
    assert (outcome.passed, outcome.total) == (2, 4)
    assert outcome.known == {"metrics": ["is b"]}
    assert outcome.unknown == {"is c": "failed"}
    assert outcome.mended == ("is d",)
    assert not outcome.is_as_known
    assert list(lines("scheduling", outcome)) == [
        "scheduling: 2 of 4 specifications pass with our planner",
        "    1  metrics",
        "not known: is c",
        "    failed",
        "passes now, take it out of known.toml: is d",
    ]


def test_known_failures_have_one_reason_each() -> None:
    for suite in SUITES:
        names = [name for names in read_known(suite).values() for name in names]
        assert len(names) == len(set(names))


def test_karpenters_solve_makes_way_for_ours() -> None:
    source = "func (s *Scheduler) Solve(ctx context.Context) {}\n"
    assert renamed(source) == "func (s *Scheduler) solveInKarpenter(ctx context.Context) {}\n"
    with pytest.raises(Refused):
        renamed("func (s *Scheduler) Decide() {}\n")


def test_any_patch_release_of_go_builds_it() -> None:
    assert with_any_patch("module m\n\ngo 1.26.9\n\nrequire x v1\n") == (
        "module m\n\ngo 1.26.0\n\nrequire x v1\n"
    )


def test_what_is_waited_for_may_take_minutes() -> None:
    """Seconds of a busy machine decide nothing; other numbers of the specifications stay."""
    source = (
        "Eventually(env.Clock.HasWaiters, time.Second*5).Should(BeTrue())\n"
        "Eventually(finished.Load, 10*time.Second).Should(BeTrue())\n"
        "env.Clock.Step(10*time.Second)\n"
    )
    assert patient(source) == (
        "Eventually(env.Clock.HasWaiters, 3*time.Minute).Should(BeTrue())\n"
        "Eventually(finished.Load, 3*time.Minute).Should(BeTrue())\n"
        "env.Clock.Step(10*time.Second)\n"
    )


def test_the_planner_answers_over_http_and_keeps_what_was_asked(tmp_path: Path) -> None:
    with planner(tmp_path / "kept") as address:
        body = json.dumps({"objects": [POD, POOL], "preference-policy": "Ignore"}).encode()
        with urlopen(Request(address, body, {NAME: "Planner is fast"})) as response:
            plan = json.load(response)
    assert [machine["pods"] for machine in plan["machines"]] == [["default/web"]]
    kept = json.loads((tmp_path / "kept" / "00001.json").read_text())
    assert kept["specification"] == "Planner is fast"
    assert (kept["kind"], kept["items"]) == ("List", [POD, POOL])
    assert kept["options"] == {"preference-policy": "Ignore"}
    assert kept["answer"] == plan
