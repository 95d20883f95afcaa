"""Cluster Autoscaler's delays of scale-down, of a pool and of the whole cluster, and its unneeded time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from services.scheduler.disruption.passes import pass_again, validation_again
from shared.api.core.metadata import choice_faults, pool_metadata, read_metadata
from shared.disruption.advice import change_for
from shared.disruption.delays import CLUSTER, Changes, LastChanges, delayed, ends
from shared.disruption.global_consolidation.churn import Churn
from shared.disruption.records import Command
from shared.domain.feature_gates import FeatureGates
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.domain.pools.nodepools import GLOBAL, KARPENTER, WHEN_UNDERUTILIZED, Budget, NodePool
from shared.domain.workloads.scale_down import KARPENTERS, ScaleDownRules, waiting_longer
from shared.simulation.decisions.records import (
    CommandOutcome,
    PassQuestion,
    ValidationQuestion,
    decode_outcome,
    encode_outcome,
)
from shared.solver.solve import SolverSettings
from tests.support.planning.builders import make_machine, make_pool
from tests.support.planning.disruption import NOW, make_cluster, make_running, make_world, pods_on

WHATS = ("add", "delete", "failure")
FIELDS = {"add": "added", "delete": "deleted", "failure": "failed"}
NAME = "dovetail.sh/scale-down-delay-after-"


def pool(name: str = "a", **changes: Any) -> NodePool:
    fields: dict[str, Any] = {
        "generation_api": V1,
        "consolidation_policy": WHEN_UNDERUTILIZED,
        "consolidate_after_seconds": 0.0,
        "budgets": (Budget("100%"),),
    }
    return make_pool(name, **{**fields, **changes})


def question(**changes: Any) -> PassQuestion:
    asked = PassQuestion(NOW, V1, SolverSettings(), FeatureGates(), KARPENTER, Churn())
    return replace(asked, **changes)


@pytest.mark.parametrize("what", WHATS)
def test_a_delay_of_the_cluster_counts_from_the_last_change_of_any_pool(what: str) -> None:
    delay: dict[str, Any] = {f"delay_after_{what}": 60.0}
    rules, changes = ScaleDownRules(**delay), {CLUSTER: Changes(**{FIELDS[what]: NOW})}
    pools = (pool("a"), pool("b"))
    found = delayed(pools, rules, changes, now=NOW + 59)
    assert set(found) == {"NodePool/a", "NodePool/b"}
    assert all(text.endswith("less than 60 s ago") for text in found.values())
    assert set(ends(pools, rules, changes, now=NOW + 59)) == {NOW + 60}
    assert delayed(pools, rules, changes, now=NOW + 60) == {}
    assert delayed(pools, rules, {}, now=NOW) == {}
    assert delayed(pools, KARPENTERS, changes, now=NOW) == {}
    ahead = delayed(pools, rules, changes, now=NOW - 3600)
    assert ahead == {}, "the clock of its writer was an hour ahead"


@pytest.mark.parametrize("what", WHATS)
def test_a_delay_of_a_pool_counts_from_its_own_changes_and_takes_the_clusters_place(
    what: str,
) -> None:
    of_all: dict[str, Any] = {f"delay_after_{what}": 60.0}
    own: dict[str, Any] = {f"delay_after_{what}": 600.0}
    none: dict[str, Any] = {f"delay_after_{what}": 0.0}
    pools = (pool("own", **own), pool("none", **none), pool("silent"))
    field = FIELDS[what]
    changes = {
        CLUSTER: Changes(**{field: NOW}),
        "NodePool/own": Changes(**{field: NOW - 500}),
        "NodePool/none": Changes(**{field: NOW}),
    }
    rules = ScaleDownRules(**of_all)
    at_first = delayed(pools, rules, changes, now=NOW + 10)
    assert set(at_first) == {"NodePool/own", "NodePool/silent"}
    assert "of the pool" in at_first["NodePool/own"]
    assert set(delayed(pools, rules, changes, now=NOW + 70)) == {"NodePool/own"}
    assert delayed(pools, rules, changes, now=NOW + 100) == {}


def test_machines_tell_when_they_came_and_went_and_that_is_kept() -> None:
    changes = LastChanges()
    first = make_machine("a", pool="a", created_at=5.0)
    changes.note([first, make_machine("b", pool="b", created_at=9.0, deleted_at=20.0)])
    changes.note([first])
    changes.fail(["Provisioner/a"], now=30.0)
    assert changes.seen == {
        CLUSTER: Changes(9.0, 20.0, 30.0),
        "Provisioner/a": Changes(5.0, 0.0, 30.0),
        "Provisioner/b": Changes(9.0, 20.0),
    }
    rules, own = ScaleDownRules(delay_after_add=1.0), make_pool("a", delay_after_add=1.0)
    assert set(changes.that_count([own], KARPENTERS)) == {"Provisioner/a"}
    assert set(changes.seen) == {CLUSTER, "Provisioner/a"}, "the other pool is gone"
    assert set(changes.that_count([make_pool("a")], rules)) == {CLUSTER}
    assert changes.that_count([make_pool("a")], KARPENTERS) == {}


def outcome_of(asked: PassQuestion, *pools: NodePool, pods: int) -> CommandOutcome | None:
    """Of a pass over two machines of each pool, with so many pods of half a CPU on each."""
    names = [(f"{one.name}{at}", one) for one in pools for at in (1, 2)]
    running = [make_running(name, pool=one) for name, one in names]
    placed = [made for name, _ in names for made in pods_on(name, pods)]
    snapshot = make_cluster(running, *placed, pools=pools)
    found = pass_again(snapshot, asked)
    assert decode_outcome("pass", encode_outcome(found)) == found
    held = {
        key for one in found.stay if "left alone for a while" in one.text for key in one.machines
    }
    taken = set(found.command.candidates) if found.command else set[str]()
    assert not held & taken
    return found.command


@pytest.mark.parametrize("consolidation", [KARPENTER, GLOBAL])
@pytest.mark.parametrize("pods", [0, 1])
def test_nodes_of_a_pool_whose_delay_runs_stay_and_those_of_others_go(
    pods: int, consolidation: str
) -> None:
    waiting, other = pool("a", delay_after_add=60.0), pool("b")
    asked = question(consolidation=consolidation, changes={"NodePool/a": Changes(added=NOW - 10)})
    command = outcome_of(asked, waiting, other, pods=pods)
    assert command is not None
    assert {key.removeprefix("NodeClaim/machine-")[0] for key in command.candidates} == {"b"}
    assert outcome_of(asked, waiting, pods=pods) is None
    later = replace(asked, now=NOW + 50)
    assert outcome_of(later, waiting, pods=pods) is not None


@pytest.mark.parametrize("pods", [0, 1])
def test_a_command_is_dropped_when_a_delay_begins_before_its_validation(pods: int) -> None:
    one = pool("a", delay_after_delete=60.0)
    running = [make_running(name, pool=one) for name in ("a1", "a2")]
    placed = [made for name in ("a1", "a2") for made in pods_on(name, pods)]
    snapshot = make_cluster(running, *placed, pools=(one,))
    (candidate, *_) = make_world(snapshot).candidates
    reason, method = ("Underutilized", "single-node") if pods else ("Empty", "emptiness")
    command = Command(method, reason, (candidate,))
    before = validation_again(snapshot, ValidationQuestion(question(), command))
    assert before.command is not None
    asked = question(changes={"NodePool/a": Changes(deleted=NOW)})
    assert validation_again(snapshot, ValidationQuestion(asked, command)).command is None


@pytest.mark.parametrize("what", WHATS)
def test_the_delays_are_annotations_of_the_pool(what: str) -> None:
    read = read_metadata({"metadata": {"annotations": {NAME + what: "10m"}}}).choices
    assert read == {f"delay_after_{what}": 600.0}
    (fault,) = choice_faults({"metadata": {"annotations": {NAME + what: "600"}}})
    assert str(fault).endswith("'600' is not a duration such as 24h, at most 720h")


@given(st.sampled_from(WHATS), st.integers(0, 720 * 3600))
def test_what_is_written_of_a_delay_is_read_again(what: str, seconds: int) -> None:
    field: dict[str, Any] = {f"delay_after_{what}": float(seconds)}
    made = pool_metadata(make_pool(**field))
    assert read_metadata({"metadata": made}).choices == field


def test_the_unneeded_time_counts_for_pools_with_the_default_alone() -> None:
    after = {
        name: waiting_longer(one, 600.0).consolidate_after_seconds
        for name, one in {
            "silent": pool(),
            "own": pool(consolidate_after_seconds=1.0),
            "never": pool(consolidate_after_seconds=None),
            "provisioner": pool(generation_api=V1ALPHA5),
        }.items()
    }
    assert after == {"silent": 600.0, "own": 1.0, "never": None, "provisioner": 0.0}
    assert waiting_longer(pool(), 0.0) == pool()


def test_a_recorded_pass_knows_the_unneeded_time() -> None:
    """A node whose unneeded time has not passed takes no pods of others, as with consolidateAfter (SCH-54)."""
    old, young = pool("a"), pool("b")
    running = [make_running("a1", pool=old), make_running("b1", pool=young, extra=())]
    placed = [*pods_on("a1", 1), *pods_on("b1", 3)]
    snapshot = make_cluster(running, *placed, pools=(old, young))
    at_once = pass_again(snapshot, question()).command
    assert at_once is not None
    assert (at_once.candidates, at_once.replacements) == (("NodeClaim/machine-a1",), ())
    asked = question(rules=ScaleDownRules(unneeded_seconds=600.0))
    later = pass_again(snapshot, asked).command
    assert later is None or later.replacements


def test_explain_says_what_shortens_a_delay() -> None:
    rules = ScaleDownRules(delay_after_add=60.0)
    (text,) = delayed([pool()], rules, {CLUSTER: Changes(added=NOW)}, now=NOW).values()
    assert "SCALE_DOWN_DELAY_AFTER_ADD" in change_for(text, make_machine())
