"""Other settings and pools for recorded decisions: what ``--with`` and ``--with-file`` name. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from shared.domain.pools.nodepools import BY_PACKING, GLOBAL, KARPENTER, NodePool
from shared.domain.snapshot import Snapshot
from shared.errors import ConfigurationError
from shared.simulation.decisions.records import PassQuestion, PlanQuestion, Question
from shared.simulation.options import NAMES, read_options

CONSOLIDATION = "consolidation"
FIELDS = {
    "policy": "packing_policy",
    "effort": "effort",
    "preference-policy": "preference_policy",
    "min-values-policy": "min_values_policy",
    "max-node-cpu": "most_node_cpu_milli",
    "node-price": "node_price_micro_usd",
    "expander": "expander",
}
"""Option of ``dovetail simulate`` -> field of the planner's settings."""
OFFERED = (*FIELDS, CONSOLIDATION)


class Changes(NamedTuple):
    """``settings``: fields of the planner's settings; ``pools`` replace those of the same key, or join them."""

    settings: Mapping[str, Any]
    consolidation: str = ""
    pools: tuple[NodePool, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.settings or self.consolidation or self.pools)


def read_changes(given: Iterable[str], pools: Iterable[NodePool] = ()) -> Changes:
    """``given``: NAME=VALUE. Raises ConfigurationError that names the option and its choices."""
    named: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or name not in OFFERED:
            raise ConfigurationError(
                f"--with {text[:60]!r}: give NAME=VALUE, with one of {', '.join(OFFERED)}"
            )
        named[name] = value
    consolidation = named.pop(CONSOLIDATION, "")
    if consolidation not in ("", KARPENTER, GLOBAL, BY_PACKING):
        raise ConfigurationError(f"consolidation must be {KARPENTER}, {GLOBAL} or {BY_PACKING}")
    read = read_options({name: value for name, value in named.items() if name in NAMES}).settings
    settings = {FIELDS[name]: getattr(read, FIELDS[name]) for name in named}
    return Changes(settings, consolidation, tuple(pools))


def changed_question(question: Question, changes: Changes) -> Question:
    """The same question with other settings. Raises ConfigurationError for a validation, which has no settings."""
    if isinstance(question, PlanQuestion):
        return replace(question, settings=replace(question.settings, **changes.settings))
    if isinstance(question, PassQuestion):
        return changed_pass(question, changes)
    raise ConfigurationError(
        "a validation only asks whether a command is still right; name the pass that proposed it, "
        "see `dovetail decisions`"
    )


def changed_pass(question: PassQuestion, changes: Changes) -> PassQuestion:
    """Other inputs deserve another look: what a pass left out because nothing had changed is not left out."""
    return replace(
        question,
        settings=replace(question.settings, **changes.settings),
        consolidation=changes.consolidation or question.consolidation,
        quiet=False,
    )


def changed_snapshot(snapshot: Snapshot, changes: Changes) -> Snapshot:
    """With the pools of the files. What a pool holds already stays counted."""
    if not changes.pools:
        return snapshot
    before = {pool.key: pool for pool in snapshot.pools}
    for pool in changes.pools:
        known = before.get(pool.key)
        kept = {"uid": known.uid, "usage": known.usage} if known else {}
        before[pool.key] = replace(pool, **kept)
    return replace(snapshot, pools=tuple(sorted(before.values(), key=lambda p: (p.name, p.key))))
