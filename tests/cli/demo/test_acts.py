"""The checks of the stories that take machines away read the timeline."""

from __future__ import annotations

from cli.demo.acts import left_early, most_ahead
from cli.demo.timeline import Entry


def story(*events: str) -> list[Entry]:
    """``ready new1``, ``deleted old1``, in order."""
    return [
        Entry(float(at), f"node {event}", f"node/{name}")
        for at, (event, name) in enumerate(one.split() for one in events)
    ]


OLD = {"old1", "old2"}


def test_a_replacement_that_is_ready_first_is_right() -> None:
    entries = story(
        "ready old1", "ready new1", "deleted old1", "gone old1", "ready new2", "gone old2"
    )
    assert left_early(entries, OLD) == []
    assert most_ahead(entries, OLD) == 1


def test_an_old_node_that_leaves_first_is_named() -> None:
    assert left_early(story("deleted old1", "ready new1", "gone old1"), OLD) == ["old1"]


def test_replacements_bought_all_at_once_show() -> None:
    entries = story("ready new1", "ready new2", "deleted old1", "deleted old2")
    assert left_early(entries, OLD) == []
    assert most_ahead(entries, OLD) == 2
