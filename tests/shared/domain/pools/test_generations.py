"""What differs between the API generations has one place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.domain.pools.generations import GENERATIONS, OF_KIND, V1, V1ALPHA5
from tests.support.planning.builders import make_machine, make_node_class, make_pool
from tests.support.texts.citations import PROJECT, sources

CONVERSION = PROJECT / "shared/api"
TEXTS = {"V1", "V1ALPHA5", "generation_api"}


def comparisons(path: Path) -> Iterator[int]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Compare):
            names = (ast.unparse(one).rpartition(".")[2] for one in (node.left, *node.comparators))
            if TEXTS.intersection(names):
                yield node.lineno


@pytest.mark.slow
def test_nobody_compares_the_text_of_a_generation_but_the_conversion() -> None:
    """A rule that differs is a field of the record, with a name that says what differs."""
    found = [
        f"{path.relative_to(PROJECT)}:{line}"
        for path in sources("services", "shared")
        if path.suffix == ".py" and not path.is_relative_to(CONVERSION)
        for line in comparisons(path)
    ]
    assert found == []


@pytest.mark.parametrize("name", [V1ALPHA5, V1])
def test_every_object_has_the_record_of_its_generation(name: str) -> None:
    """MAP-01: its kinds are in the keys by which messages and records name objects."""
    api = GENERATIONS[name]
    assert api.name == name
    machine, pool = make_machine(generation_api=name), make_pool(generation_api=name)
    node_class = make_node_class(generation_api=name)
    for record in (machine, pool, node_class):
        assert record.api is api
        assert OF_KIND[record.key.partition("/")[0]] is api


def test_the_generations_share_no_kind() -> None:
    """A key tells the generation of its object."""
    assert len(OF_KIND) == 3 * len(GENERATIONS)


@pytest.mark.parametrize(
    ("name", "field", "line"),
    [
        (V1ALPHA5, "spec.subnetSelector", "registered machine"),
        (V1, "spec.subnetSelectorTerms", "registered nodeclaim"),
    ],
)
def test_texts_have_the_words_of_their_generation(name: str, field: str, line: str) -> None:
    """LCH-72: in logs and in faults alike."""
    api = GENERATIONS[name]
    assert (api.selector_field("subnetSelector"), api.worded("registered nodeclaim")) == (
        field,
        line,
    )
