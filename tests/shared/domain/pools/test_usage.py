"""What counts towards a pool's limits (SCH-100): a pool exceeds them by one machine at most."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shared.domain.machines.machine import INSTANCE_TERMINATING, Condition, Machine
from shared.domain.pools.usage import NODES, USUAL, Counting, replacing, usage
from tests.support.planning.builders import make_machine

KARPENTER = Counting(terminating=False)


def machine(number: int, *, going: bool = False, **changes: Any) -> Machine:
    provider_id = f"aws:///z/i-{number}"
    return make_machine(f"m{number}", provider_id=provider_id, terminating=going, **changes)


def cpu(*cores: int, going: int = 0, counting: Counting = USUAL) -> dict[str, int]:
    """Used by machines of these sizes, the first ``going`` of them on their way out."""
    sized = ((machine(i, going=i < going), {"cpu": c}) for i, c in enumerate(cores))
    return usage(sized, counting)


def test_machines_on_their_way_out_count_all_but_the_largest() -> None:
    assert cpu(4, 8, 16) == {"cpu": 28, NODES: 3}
    assert cpu(4, 8, 16, going=2) == {"cpu": 20, NODES: 2}
    assert cpu(4, 8, 16, going=2, counting=KARPENTER) == {"cpu": 16, NODES: 1}
    assert cpu(4, 8, 16, going=2, counting=replacing(USUAL)) == {"cpu": 28, NODES: 3}


def test_one_whose_instance_ends_or_never_was_counts_no_more() -> None:
    ended = machine(1, going=True, conditions={INSTANCE_TERMINATING: Condition("True")})
    never = make_machine("n", terminating=True)
    assert usage(((one, {"cpu": 4}) for one in (ended, never)), replacing(USUAL)) == {}


@given(
    st.lists(st.tuples(st.sampled_from(["buy", "delete", "end"]), st.integers(1, 9)), max_size=60)
)
def test_what_runs_exceeds_the_limit_by_one_machine_at_most(acts: list[tuple[str, int]]) -> None:
    """Whatever is bought within the limits, deleted, and held by its drain for as long as it likes."""
    limit = 10
    alive: dict[int, int] = {}
    going: dict[int, int] = {}
    for number, (act, size) in enumerate(acts):
        sized = [(machine(i), {"cpu": c}) for i, c in alive.items()]
        sized += [(machine(i, going=True), {"cpu": c}) for i, c in going.items()]
        if act == "buy" and usage(sized).get("cpu", 0) + size <= limit:
            alive[number] = size
        elif act == "delete" and alive:
            first = min(alive)
            going[first] = alive.pop(first)
        elif act == "end" and going:
            del going[min(going)]
        running = [*alive.values(), *going.values()]
        assert sum(running) <= limit + max(going.values(), default=0)
