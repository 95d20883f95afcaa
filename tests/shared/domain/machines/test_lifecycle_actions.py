"""What stands on a node that its auto scaling group ends (INT-41)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shared.domain.machines.lifecycle_actions import (
    MOST_HOOKS,
    Hook,
    LifecycleAction,
    ended,
    joined,
    parse_lifecycle_action,
)

NAMES = st.text(max_size=3)
TIMES = st.integers(0, 4_000_000_000).map(float)
ENDS = st.sampled_from(["", "CONTINUE"])
HOOKS = st.builds(Hook, NAMES, NAMES, NAMES, st.integers(0, 7200).map(float), ENDS)
ACTIONS = st.builds(
    LifecycleAction,
    st.sampled_from(["i-1", "i-2"]),
    TIMES,
    TIMES,
    st.lists(HOOKS, max_size=3, unique_by=lambda hook: hook.identity).map(tuple),
    st.booleans(),
)
FIRST = Hook("drain", "workers", "token-1", 30.0)
SECOND = Hook("second", "workers", "token-2", 30.0)


def action(*hooks: Hook, at: float = 100.0, until: float = 400.0) -> LifecycleAction:
    return LifecycleAction("i-1", at, until, hooks)


@given(ACTIONS)
def test_what_is_written_is_read(one: LifecycleAction) -> None:
    assert parse_lifecycle_action(one.text) == one


@given(st.text(max_size=30))
def test_what_we_did_not_write_is_nothing(text: str) -> None:
    assert parse_lifecycle_action(text) is None


@given(ACTIONS, ACTIONS)
def test_joining_twice_changes_nothing(held: LifecycleAction, new: LifecycleAction) -> None:
    once = joined(held, new)
    assert joined(once, new) == once


@given(ACTIONS, ACTIONS)
def test_no_hook_that_waits_is_lost(held: LifecycleAction, new: LifecycleAction) -> None:
    """Of the same instance; another instance means another life of the node."""
    waiting = {hook.identity for hook in joined(held, new).waiting}
    known = {hook.identity for hook in held.hooks} if held.instance == new.instance else set()
    assert waiting >= {hook.identity for hook in new.waiting} - known
    if held.instance == new.instance:
        assert waiting >= {hook.identity for hook in held.waiting}


def test_a_second_hook_joins_and_the_earlier_end_counts() -> None:
    both = joined(action(FIRST), action(SECOND, at=110.0, until=200.0))
    assert both == action(FIRST, SECOND, until=200.0)
    assert joined(None, both) == both
    assert joined(both, action(FIRST, until=150.0)) == both


def test_one_that_evicts_does_so_for_all_hooks() -> None:
    """Whichever came first, and also when only the setting changed and the same event came again."""
    waits = LifecycleAction("i-1", 100.0, 400.0, (FIRST,), evict=False)
    assert joined(waits, action(FIRST)) == action(FIRST)
    assert joined(waits, action(SECOND)).evict
    assert joined(action(FIRST), waits) == action(FIRST)


def test_one_that_is_over_makes_room() -> None:
    over = ended(action(FIRST), FIRST, "CONTINUE")
    new = action(SECOND, at=5000.0, until=6000.0)
    assert over.is_over
    assert joined(over, new) == new
    agents = action(until=200.0)
    assert joined(agents, action(at=150.0, until=250.0)) == agents
    assert joined(agents, action(at=201.0)) == action(at=201.0)


def test_the_first_end_of_a_hook_stands() -> None:
    one = ended(action(FIRST, SECOND), FIRST, "CONTINUE")
    assert one.waiting == (SECOND,)
    assert ended(one, FIRST, "over") == one


def test_there_is_room_for_all_hooks_of_a_group_and_no_more() -> None:
    held: LifecycleAction | None = None
    for number in range(MOST_HOOKS + 5):
        held = joined(held, action(Hook(f"hook-{number}", "workers")))
    assert held is not None
    assert len(held.hooks) == MOST_HOOKS
