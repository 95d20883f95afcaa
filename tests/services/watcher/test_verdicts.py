"""What users are told about their pools and node classes (F27)."""

from __future__ import annotations

from services.watcher.verdicts import LONGEST_MESSAGE, verdict
from shared.domain.machines import Condition


def test_a_valid_pool_is_active_and_a_faulty_one_says_everything_that_is_wrong() -> None:
    assert verdict("nodepools", (), now=5.0) == ("Active", Condition("True", "Active", "", 5.0))
    assert verdict("nodepools", ("spec.a: x", "spec.b: y"), now=5.0) == (
        "Active",
        Condition("False", "ValidationFailed", "spec.a: x; spec.b: y", 5.0),
    )


def test_a_node_class_is_only_ever_refused_here() -> None:
    """The launcher says Ready once it found subnets, groups and images."""
    assert verdict("nodeclasses", (), now=5.0) is None
    assert verdict("nodeclasses", ("spec.a: x",), now=5.0) == (
        "Ready",
        Condition("False", "ValidationFailed", "spec.a: x", 5.0),
    )


def test_other_kinds_have_no_verdict_and_messages_have_an_end() -> None:
    assert verdict("pods", ("spec: x",), now=5.0) is None
    said = verdict("nodepools", ("x" * 5000,), now=5.0)
    assert said is not None
    assert len(said[1].message) == LONGEST_MESSAGE
