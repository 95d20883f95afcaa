"""The indexes give what trying every selector on every pod gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shared.domain.expressions import Expression
from shared.solver.topology.index import PodIndex, SelectorIndex
from shared.solver.topology.selectors import Selector

KEYS = st.sampled_from(["app", "team", "tier"])
VALUES = st.sampled_from(["a", "b", "c"])
NAMESPACES = st.sampled_from(["one", "two"])
LABELS = st.dictionaries(KEYS, VALUES, max_size=3)
EXPRESSIONS = st.builds(
    Expression,
    KEYS,
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    st.lists(VALUES, max_size=2, unique=True).map(tuple),
)
SELECTORS = st.builds(
    Selector,
    st.lists(NAMESPACES, max_size=2, unique=True).map(tuple),
    LABELS.map(lambda labels: tuple(sorted(labels.items()))),
    st.lists(EXPRESSIONS, max_size=2).map(tuple),
)
PODS = st.tuples(NAMESPACES, LABELS)


@given(st.lists(SELECTORS, max_size=12), PODS)
def test_a_pod_finds_the_selectors_that_select_it_in_their_order(
    selectors: list[Selector], pod: tuple[str, dict[str, str]]
) -> None:
    index: SelectorIndex[int] = SelectorIndex()
    for number, selector in enumerate(selectors):
        index.add(selector, number)
    assert index.selecting(*pod) == [i for i, one in enumerate(selectors) if one.selects(*pod)]


@given(st.lists(PODS, max_size=12), SELECTORS)
def test_a_selector_finds_the_pods_that_it_selects(
    pods: list[tuple[str, dict[str, str]]], selector: Selector
) -> None:
    index: PodIndex[int] = PodIndex()
    for number, pod in enumerate(pods):
        index.add(*pod, number)
    assert sorted(index.selected(selector)) == [
        i for i, pod in enumerate(pods) if selector.selects(*pod)
    ]


def test_a_label_of_all_pods_does_not_make_one_long_list() -> None:
    """A selector goes to the label with the shortest list, so the label that all share stays nearly unused."""
    index: SelectorIndex[int] = SelectorIndex()
    for i in range(100):
        index.add(Selector(("one",), (("all", "x"), ("app", f"a{i}")), ()), i)
    assert max(map(len, index._lists.values())) <= 1 + 1
