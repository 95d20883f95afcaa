"""Announced interruptions: deadlines, and where the pods of an interrupted node go, also after it is gone."""

from __future__ import annotations

from typing import Any

import msgspec

from services.console.picture.picture import Picture
from services.console.reports.evacuations import MOST_NODES, Evacuations
from services.console.reports.interruptions import KEPT_SECONDS, interruptions
from shared.domain import labels as keys
from shared.domain.expressions import Taint
from tests.support.console.records import node_of, pair, running

ID = "NodeClaim/default-a"
NOTICE = {
    "machine": ID, "node": "ip-default-a", "kind": "spot_interrupted", "since": 100.0,
    "deadline": 220.0,
}  # fmt: skip
TAINT = Taint(keys.SPOT_ITN_TAINT_KEY, "", "NoSchedule")


class Story:
    """A picture with two nodes and a pod on the first, and what is remembered of it."""

    def __init__(self) -> None:
        self.picture, self.evacuations = Picture(), Evacuations()
        self.old, self.new = pair("default-a"), pair("default-b")
        for machine, node in (self.old, self.new):
            self.put("machines", machine.key, machine)
            self.put("nodes", node.name, node)
        self.put("pods", "default/web", running("web", "ip-default-a"))
        self.look()

    def put(self, kind: str, key: str, record: Any) -> None:
        self.picture.note(kind, key, None if record is None else msgspec.json.encode(record))

    def look(self, announced: tuple[str, ...] = (ID,), now: float = 105.0) -> None:
        self.picture.take()
        self.evacuations.note(self.picture, announced, now)

    def end(self, now: float = 130.0) -> None:
        machine, node = self.old
        self.put("machines", machine.key, None)
        self.put("nodes", node.name, None)
        self.look(now=now)

    def shown(self, now: float = 110.0, **changes: Any) -> list[dict[str, Any]]:
        given: dict[str, Any] = {"recent": [NOTICE], "targets": {}, **changes}
        return interruptions(
            given["recent"], self.picture, self.evacuations, given["targets"], now=now
        )


def test_an_interrupted_node_shows_its_deadline_and_where_its_pods_go() -> None:
    (one,) = Story().shown(targets={"default/web": "default-b"})
    assert (one["kind"], one["deadline"], one["state"]) == ("spot interrupted", 220.0, "ready")
    (pod,) = one["pods"]
    assert (pod["name"], pod["state"]) == ("default/web", "there")
    assert (pod["goesTo"], pod["target"]) == ("ip-default-b", "NodeClaim/default-b")


def test_a_place_that_is_planned_only_is_named_as_planned() -> None:
    (one,) = Story().shown(targets={"default/web": "default-new"})
    assert [(pod["goesTo"], pod["target"]) for pod in one["pods"]] == [("default-new", "")]


def test_a_pod_without_a_place_goes_nowhere_yet() -> None:
    (one,) = Story().shown()
    assert [pod["goesTo"] for pod in one["pods"]] == [""]


def test_where_the_pods_went_is_known_after_the_node_is_gone() -> None:
    story = Story()
    story.put("pods", "default/web", None)
    story.end()
    (one,) = story.shown(targets={"default/web": "default-b"})
    assert (one["state"], one["goneAt"]) == ("gone", 130.0)
    assert [(pod["state"], pod["goesTo"]) for pod in one["pods"]] == [("left", "ip-default-b")]


def test_a_pod_that_keeps_its_name_is_found_where_it_runs() -> None:
    """As those of a StatefulSet do, wherever they were planned."""
    story = Story()
    story.put("pods", "default/web", running("web", "ip-default-b"))
    story.end()
    (one,) = story.shown(targets={"default/web": "elsewhere"})
    assert [(pod["state"], pod["goesTo"]) for pod in one["pods"]] == [("moved", "ip-default-b")]


def test_a_node_that_is_gone_is_listed_for_a_while() -> None:
    story = Story()
    story.end()
    assert [one["state"] for one in story.shown()] == ["gone"]
    assert story.shown(now=101 + KEPT_SECONDS) == []


def test_a_node_that_was_only_closed_is_listed_by_its_mark() -> None:
    story = Story()
    story.put("nodes", "ip-default-a", node_of(story.old[0], taints=(TAINT,)))
    story.look(announced=())
    (one,) = story.shown(recent=[])
    assert (one["kind"], len(one["pods"])) == ("interrupted", 1)


def test_only_so_many_nodes_are_remembered() -> None:
    kept = Story().evacuations
    picture = Picture()
    for number in range(MOST_NODES + 1):
        machine, node = pair(f"m-{number}")
        picture.note("machines", machine.key, msgspec.json.encode(machine))
        picture.note("nodes", node.name, msgspec.json.encode(node))
    picture.take()
    kept.note(picture, picture.nodes, 1.0)
    assert len(kept._known) == MOST_NODES
