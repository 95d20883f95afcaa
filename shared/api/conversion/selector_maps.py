"""Selectors of v1alpha1 (maps of tag keys to values) and the equivalent terms of v1 (T-10, MAP-04).

All entries of a map must match, and a value may list alternatives, so a map is the product of its alternatives. Terms
are alternatives of each other. Hence a map becomes up to 100 terms, and terms become a map only if they are such a
product. The order of alternatives is not preserved; the owners of several terms become one list.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shared.domain.pools.nodepools import SelectorTerm

ID_KEYS = ("aws-ids", "aws::ids")
NAME_KEY = "aws::name"
OWNERS_KEY = "aws::owners"
MOST_TERMS = 100


@dataclass(frozen=True)
class Selectable:
    """A kind of AWS resource that a selector selects, and the special keys that are allowed for it."""

    id_prefix: str
    """Prefix of the ids of these resources."""
    named: bool = False
    owned: bool = False


SUBNETS = Selectable("subnet-")
SECURITY_GROUPS = Selectable("sg-", named=True)
IMAGES = Selectable("ami-", named=True, owned=True)


def alternatives(value: str) -> list[str]:
    """``"a, b,,a"`` -> ``["a", "b"]``; an empty string is one alternative, because a tag's value may be empty."""
    parts = dict.fromkeys(part.strip() for part in value.split(","))
    return [part for part in parts if part] if value else [""]


def selector_faults(selector: object, kind: Selectable) -> Iterable[tuple[str | None, str]]:
    """(key, fault) pairs of an unchecked selector; the key is None for a fault of the whole map (T-10).

    The schema reports entries that are not strings.
    """
    if not isinstance(selector, Mapping):
        return
    written = {k: v for k, v in selector.items() if isinstance(k, str) and isinstance(v, str)}
    for key in written:
        fault = _entry_fault(key, written, kind)
        if fault:
            yield key, fault
    if _combinations(written) > MOST_TERMS:
        yield (
            None,
            f"lists more than {MOST_TERMS} combinations of values; use a wildcard or fewer values",
        )


def _combinations(written: Mapping[str, str]) -> int:
    return math.prod(
        len(alternatives(value)) for key, value in written.items() if key != OWNERS_KEY
    )


def _entry_fault(key: str, written: Mapping[str, str], kind: Selectable) -> str:
    if not key or not written[key]:
        return "needs a key and a value; * is any value"
    if key in ID_KEYS and len(written) > 1:
        return "must be the only key of the selector"
    if key == NAME_KEY and not kind.named:
        return "is not allowed here; select by tags or aws-ids"
    if key == OWNERS_KEY and not kind.owned:
        return "is allowed in amiSelector only; remove it"
    found = alternatives(written[key])
    if key in ID_KEYS and (fault := _id_fault(found, kind)):
        return fault
    return "" if found else "must hold at least one value"


def _id_fault(ids: Iterable[str], kind: Selectable) -> str:
    for one in ids:
        if one and not re.fullmatch(f"{kind.id_prefix}[0-9a-z]+", one):
            return f"{one[:40]!r} is not an id such as {kind.id_prefix}0123456789abcdef0"
    return ""


def terms_of_selector(selector: Mapping[str, str]) -> tuple[SelectorTerm, ...]:
    """The terms that are equivalent to a selector without faults; () for an empty selector."""
    if not selector:
        return ()
    for key in ID_KEYS:
        if key in selector:
            return tuple(SelectorTerm(id=one) for one in alternatives(selector[key]))
    owner = selector.get(OWNERS_KEY, "")
    # Sorted, so that the terms do not depend on the order of the map's keys.
    varied = sorted(selector.keys() - {OWNERS_KEY})
    return tuple(
        _term(dict(zip(varied, choice, strict=True)), owner)
        for choice in itertools.product(*(alternatives(selector[key]) for key in varied))
    )


def _term(entries: dict[str, str], owner: str) -> SelectorTerm:
    name = entries.pop(NAME_KEY, "")
    return SelectorTerm(tags=entries, name=name, owner=owner)


def selector_of_terms(terms: Sequence[SelectorTerm], kind: Selectable) -> dict[str, str] | None:
    """The map that is equivalent to these terms; None when there is none."""
    if not terms:
        return {}
    listed = _ids(terms) or _product(terms)
    written = {key: ",".join(values) for key, values in listed.items()}
    if any(True for _ in selector_faults(written, kind)):
        return None
    # Converting back finds maps with another meaning, caused by commas, spaces or special keys in tags.
    return written if _as_set(terms_of_selector(written)) == _as_set(terms) else None


def _ids(terms: Sequence[SelectorTerm]) -> dict[str, list[str]]:
    return {ID_KEYS[0]: [one.id for one in terms]} if all(one.id for one in terms) else {}


def _product(terms: Sequence[SelectorTerm]) -> dict[str, list[str]]:
    listed: dict[str, dict[str, None]] = {}
    for term in terms:
        for key, value in _entries(term).items():
            listed.setdefault(key, {})[value] = None
    return {key: list(values) for key, values in listed.items()}


def _entries(term: SelectorTerm) -> dict[str, str]:
    special = {NAME_KEY: term.name, OWNERS_KEY: term.owner}
    return {**term.tags, **{key: value for key, value in special.items() if value}}


def _as_set(terms: Iterable[SelectorTerm]) -> set[tuple[object, ...]]:
    """The terms as comparable tuples, one per owner: a term with several owners equals one term for each."""
    return {
        (frozenset(t.tags.items()), t.id, t.name, owner, t.alias, t.ssm_parameter, t.match_criteria)
        for t in terms
        for owner in alternatives(t.owner)
    }
