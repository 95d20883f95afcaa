"""The watcher reads a record again only when it changed (NP-24)."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from services.watcher.mirror.members import Members, machine_member, node_member
from shared.api.hashes import METHOD
from shared.domain import labels as keys
from shared.domain.machines.machine import DRIFTED, Condition, Machine
from shared.domain.pools.generations import V1
from shared.domain.records import MACHINES, NODES
from tests.support.planning.builders import make_machine, make_node


def encoded(*machines: Machine) -> dict[str, bytes]:
    return {machine.key: msgspec.json.encode(machine) for machine in machines}


def test_a_record_is_read_once_and_again_when_it_changed() -> None:
    read: list[str] = []

    def noted(machine: Machine) -> object:
        read.append(machine.name)
        return machine_member(machine)

    members = Members(MACHINES, noted)  # type: ignore[arg-type]
    first, second = make_machine("a"), make_machine("b")
    records = encoded(first, second)
    assert [one.name for one in members.of(records)] == ["a", "b"]
    members.of(records)
    assert read == ["a", "b"]
    records |= encoded(replace(second, provider_id="aws:///z/i-1"))
    assert [one.provider_id for one in members.of(records)] == ["", "aws:///z/i-1"]
    del records[first.key]
    assert [one.name for one in members.of(records)] == ["b"]
    assert read == ["a", "b", "b"]
    members.of(records | encoded(first))
    assert read[-1] == "a", "one that was gone is not remembered"


def test_a_member_says_what_its_record_says() -> None:
    machine = make_machine(
        "a", generation_api=V1, provider_id="aws:///z/i-1", node_name="n", capacity={"cpu": 2000},
        node_class="c", last_pod_event_at=5.0,
    )  # fmt: skip
    (found,) = Members(MACHINES, machine_member).of(encoded(machine))
    for name in (
        "name", "uid", "provider_id", "pool_key", "capacity", "terminating", "key", "api",
        "node_name", "node_class_key", "last_pod_event_at",
    ):  # fmt: skip
        assert getattr(found, name) == getattr(machine, name), name
    node = make_node("n", provider_id="aws:///z/i-1", labels={keys.NODE_POOL: "default"})
    (found,) = Members(NODES, node_member).of({"n": msgspec.json.encode(node)})
    for name in ("name", "uid", "provider_id", "pool_key", "capacity", "terminating"):
        assert getattr(found, name) == getattr(node, name), name


def test_hashes_of_another_making_are_to_be_adopted_unless_they_decided_something() -> None:
    """NP-20: a new version of the hash."""
    old = make_machine()
    drifted = replace(old, conditions={DRIFTED: Condition("True")})
    ours = replace(old, annotations={keys.HASHED_BY: METHOD})
    assert machine_member(old).lacks_hashes
    for one in (drifted, ours, replace(old, terminating=True)):
        assert not machine_member(one).lacks_hashes
