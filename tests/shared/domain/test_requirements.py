"""The algebra of requirements: set laws, SCH-01..SCH-11."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from cProfile import Profile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.requirements import OPERATORS, Requirement, Requirements, requirement_of
from shared.errors import InvalidObject

VALUES = ("a", "b", "c", "0", "1", "2", "3", "4", "x1", "-1")


def requirement(operator: str, *values: str, key: str = "key") -> Requirement:
    return requirement_of(Expression(key, operator, values))


def _expression(operator: str) -> st.SearchStrategy[Expression]:
    if operator in ("Exists", "DoesNotExist"):
        return st.just(Expression("key", operator))
    if operator in ("In", "NotIn"):
        chosen = st.lists(st.sampled_from(VALUES), min_size=1, max_size=4)
        return chosen.map(lambda values: Expression("key", operator, tuple(values)))
    return st.integers(0, 4).map(lambda n: Expression("key", operator, (str(n),)))


expressions = st.sampled_from(OPERATORS).flatmap(_expression)
requirement_sets = st.lists(expressions, min_size=1, max_size=3).map(
    lambda found: Requirements(map(requirement_of, found)).get("key")
)


@given(requirement_sets, requirement_sets)
def test_intersection_commutes(left: Requirement, right: Requirement) -> None:
    """SCH-04: intersection."""
    assert left.intersect(right) == right.intersect(left)


@given(requirement_sets, requirement_sets, requirement_sets)
def test_intersection_associates(a: Requirement, b: Requirement, c: Requirement) -> None:
    """SCH-04: intersection."""
    assert a.intersect(b).intersect(c) == a.intersect(b.intersect(c))


@given(requirement_sets)
def test_intersection_is_idempotent(one: Requirement) -> None:
    """SCH-04: intersection."""
    assert one.intersect(one) == one


@given(requirement_sets, requirement_sets, st.sampled_from(VALUES))
def test_intersection_agrees_with_membership(a: Requirement, b: Requirement, value: str) -> None:
    """SCH-04: a value is in both exactly when it is in the intersection."""
    assert a.intersect(b).has(value) == (a.has(value) and b.has(value))


@given(requirement_sets, requirement_sets)
def test_intersects_agrees_with_the_intersection(a: Requirement, b: Requirement) -> None:
    """SCH-06: intersection without a result."""
    assert a.intersects(b) == (not a.intersect(b).is_empty)


@given(requirement_sets, requirement_sets, st.sampled_from(VALUES))
def test_a_covering_requirement_has_every_value(a: Requirement, b: Requirement, value: str) -> None:
    if a.covers(b) and b.has(value):
        assert a.has(value)


@given(requirement_sets, st.booleans())
def test_written_expressions_read_back_the_same(one: Requirement, exclusive: bool) -> None:
    """SCH-05. Gt cannot write 'at least 0' or less: v1alpha5 itself never makes it."""
    if exclusive and (one.gte == 0 or one.lte == -1):
        return
    if one.lte is not None and one.lte < 0:
        return
    written = one.expressions(exclusive_bounds=exclusive)
    assert Requirements.of(written).get("key") == one


@pytest.mark.parametrize(
    ("operator", "values", "inside", "outside"),
    [
        ("In", ("a", "b"), ["a", "b"], ["c"]),
        ("NotIn", ("a",), ["b"], ["a"]),
        ("Exists", (), ["a"], []),
        ("DoesNotExist", (), [], ["a"]),
        ("Gt", ("2",), ["3"], ["2", "x"]),
        ("Lt", ("2",), ["1"], ["2", "x"]),
        ("Gte", ("2",), ["2"], ["1"]),
        ("Lte", ("2",), ["2"], ["3"]),
    ],
)
def test_sch_01_operators_are_sets(
    operator: str, values: tuple[str, ...], inside: list[str], outside: list[str]
) -> None:
    one = requirement(operator, *values)
    assert all(map(one.has, inside))
    assert not any(map(one.has, outside))


@pytest.mark.parametrize("values", [("-1",), ("x",), (), ("1", "2"), ("1.5",)])
def test_sch_02_a_bound_must_be_one_non_negative_integer(values: tuple[str, ...]) -> None:
    with pytest.raises(InvalidObject, match="key"):
        requirement("Gt", *values)


def test_an_unknown_operator_names_the_known_ones() -> None:
    with pytest.raises(InvalidObject, match="DoesNotExist"):
        requirement("Near", "a")


def test_sch_03_legacy_keys_get_todays_name() -> None:
    legacy = Requirements.of([Expression("failure-domain.beta.kubernetes.io/zone", "In", ("a",))])
    assert legacy.labels() == {keys.ZONE: "a"}


def test_sch_04_contradicting_bounds_are_empty() -> None:
    assert requirement("Gt", "5").intersect(requirement("Lt", "3")).is_empty


def test_sch_05_an_empty_set_is_does_not_exist() -> None:
    assert requirement("In", "a").intersect(requirement("In", "b")).operator == "DoesNotExist"


def test_sch_05_two_bounds_make_two_entries() -> None:
    both = requirement("Gt", "2").intersect(requirement("Lt", "9"))
    assert [(e.operator, e.values) for e in both.expressions()] == [
        ("Gte", ("3",)),
        ("Lte", ("8",)),
    ]
    exclusive = both.expressions(exclusive_bounds=True)
    assert [(e.operator, e.values) for e in exclusive] == [("Gt", ("2",)), ("Lt", ("9",))]


def test_sch_07_adding_a_known_key_intersects() -> None:
    found = Requirements([requirement("In", "a", "b")]).add(requirement("In", "b", "c"))
    assert found.labels() == {"key": "b"}


def test_adding_nothing_new_returns_the_same_object() -> None:
    found = Requirements([requirement("In", "a")])
    assert found.add(requirement("Exists")) is found


def test_sch_08_an_undefined_label_is_named() -> None:
    text = Requirements().incompatibility(Requirements.of(labels={"Karpenter": "enabled"}))
    assert text == 'label "Karpenter" does not have known values'


@pytest.mark.parametrize("operator", ["NotIn", "DoesNotExist"])
def test_sch_08_a_negative_requirement_needs_no_label(operator: str) -> None:
    values = ("fargate",) if operator == "NotIn" else ()
    wanted = Requirements([requirement(operator, *values)])
    assert Requirements().compatible(wanted)
    assert Requirements([requirement("DoesNotExist")]).compatible(wanted)


def test_sch_08_a_typing_error_gets_a_hint() -> None:
    wanted = Requirements.of(labels={"kubernetes.io/archh": "amd64"})
    text = Requirements().incompatibility(wanted, allow_undefined=frozenset({keys.ARCH}))
    assert text is not None
    assert text.endswith(f'(typo of "{keys.ARCH}"?)')


def test_the_hint_of_a_label_is_looked_for_once() -> None:
    """Thousands of pods may ask for the same wrong label, and comparing texts letter by letter is slow."""
    wanted = Requirements.of(labels={"kubernetes.io/arhc": "amd64"})
    first, again = (_calls(Requirements().incompatibility, wanted) for _ in range(2))
    assert first["_edit_distance"] > again["_edit_distance"] == 0


def _calls(work: Callable[..., object], wanted: Requirements) -> Counter[str]:
    profile = Profile(builtins=False)
    profile.runcall(work, wanted, allow_undefined=keys.WELL_KNOWN)
    return Counter(
        {getattr(entry.code, "co_name", ""): entry.callcount for entry in profile.getstats()}
    )


def test_sch_09_well_known_labels_may_be_undefined_on_new_nodes_only() -> None:
    wanted = Requirements.of(labels={keys.ZONE: "a"})
    assert Requirements().compatible(wanted, allow_undefined=keys.WELL_KNOWN)
    assert not Requirements().compatible(wanted)


def test_sch_10_exists_in_a_pool_means_any_value() -> None:
    assert Requirements([requirement("Exists")]).compatible(Requirements.of(labels={"key": "x"}))


def test_sch_11_both_sides_are_printed() -> None:
    pool = Requirements([requirement("In", "b", "a")])
    text = pool.incompatibility(Requirements([requirement("In", "c")]))
    assert text == "key key, key In [c] not in key In [a b]"


def test_long_value_lists_are_cut() -> None:
    assert str(requirement("In", *"abcdefg")) == "key In [a b c d e and 2 others]"


def test_min_values_keeps_the_larger() -> None:
    few = requirement_of(Expression("key", "Exists", (), 2))
    many = requirement_of(Expression("key", "Exists", (), 5))
    assert few.intersect(many).min_values == 5


def test_sch_12_min_values_of_a_key_can_be_lowered() -> None:
    """Intersecting takes the larger number, so lowering is a step of its own."""
    asked = Requirements([Requirement("a", True, min_values=5), Requirement("b", True)])
    lowered = asked.with_min_values("a", 2)
    assert [r.min_values for r in lowered] == [2, None]
    assert [r.min_values for r in asked] == [5, None]
    assert lowered.intersect(asked) == asked


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (("In", "a"), ("In", "b")),
        (("In", "a"), ("NotIn", "a")),
        (("Exists",), ("DoesNotExist",)),
        (("Gt", "5"), ("Lt", "3")),
        (("In", "4"), ("Gt", "5")),
    ],
)
def test_no_node_matches_rules_that_contradict_each_other(
    left: tuple[str, ...], right: tuple[str, ...]
) -> None:
    """Not even one without the label, as kube-scheduler judges."""
    both = Requirements([requirement(*left), requirement(*right)])
    for labels in ({}, {"key": "a"}, {"key": "b"}, {"key": "4"}):
        node = Requirements.of(labels=labels)
        assert not node.compatible(both, allow_undefined=frozenset({"key"}))
        cause = node.incompatibility(both, allow_undefined=frozenset({"key"}))
        assert cause == "the pod's rules for key contradict each other"


@given(requirement_sets, requirement_sets)
def test_an_empty_set_accepts_absence_exactly_when_both_sides_did(
    a: Requirement, b: Requirement
) -> None:
    both = a.intersect(b)
    if both.is_empty:
        assert both.accepts_absence == (a.accepts_absence and b.accepts_absence)
