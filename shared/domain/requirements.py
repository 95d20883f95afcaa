"""The algebra of node requirements: requirements of pods, those of pools, and their intersection.

A requirement is a set of label values for one key, written either as its members or as its complement, plus inclusive
integer bounds (SCH-01). All operations are set operations, so they commute, associate and are idempotent. A
``Requirements`` maps keys to requirements and never changes: ``add`` and ``intersect`` return a new one, or the same
object when nothing changed, which lets the solver compare by identity.

Two limitations are Karpenter's and kept on purpose: ``Exists`` intersected with ``NotIn`` is
``NotIn``, which also accepts a node without the label; and a bounded complement whose few remaining
integers are all excluded is not recognised as empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache

import msgspec
from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.errors import InvalidObject

IN, NOT_IN, EXISTS, DOES_NOT_EXIST = "In", "NotIn", "Exists", "DoesNotExist"
GT, LT, GTE, LTE = "Gt", "Lt", "Gte", "Lte"
OPERATORS = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST, GT, LT, GTE, LTE)

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}\Z", re.ASCII)
_SHOWN_VALUES = 5
_CACHED_HINTS = 4096
_NO_VALUES: frozenset[str] = frozenset()


def _integer(text: str) -> int | None:
    return int(text) if _INTEGER.match(text) else None


def _larger(left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return right if left is None else left
    return max(left, right)


def _smaller(left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return right if left is None else left
    return min(left, right)


def _within(value: str, gte: int | None, lte: int | None) -> bool:
    """SCH-02: with a bound set, only integers inside it match."""
    if gte is None and lte is None:
        return True
    number = _integer(value)
    if number is None:
        return False
    return (gte is None or number >= gte) and (lte is None or number <= lte)


class Requirement(msgspec.Struct, frozen=True, gc=False):
    """The values that a label key may have (SCH-01). ``gte`` and ``lte`` bound a complement.

    ``contradicts``: the rules that were put together leave neither a value nor absence, so no node can match.
    """

    key: str
    complement: bool
    values: frozenset[str] = _NO_VALUES
    gte: int | None = None
    lte: int | None = None
    min_values: int | None = None
    contradicts: bool = False

    @property
    def operator(self) -> str:
        """In, NotIn, Exists or DoesNotExist; a bounded complement is Exists."""
        if not self.complement:
            return IN if self.values else DOES_NOT_EXIST
        return NOT_IN if self.values and not self.is_bounded else EXISTS

    @property
    def is_bounded(self) -> bool:
        return self.gte is not None or self.lte is not None

    @property
    def is_empty(self) -> bool:
        """SCH-05: whether no value is allowed. Equals DoesNotExist, unless rules contradict each other."""
        return not self.complement and not self.values

    @property
    def accepts_absence(self) -> bool:
        """Whether a node without the label matches: true for NotIn and DoesNotExist."""
        return self.operator in (NOT_IN, DOES_NOT_EXIST) and not self.contradicts

    @property
    def single_value(self) -> str | None:
        """The only allowed value; None when there is not exactly one."""
        return next(iter(self.values)) if not self.complement and len(self.values) == 1 else None

    def has(self, value: str) -> bool:
        """Whether ``value`` is allowed."""
        if not self.complement:
            return value in self.values
        return value not in self.values and _within(value, self.gte, self.lte)

    def intersect(self, other: Requirement) -> Requirement:
        """SCH-04. Both must be of the same key."""
        gte, lte = _larger(self.gte, other.gte), _smaller(self.lte, other.lte)
        least = _larger(self.min_values, other.min_values)
        if gte is not None and lte is not None and gte > lte:
            return self._nothing(other, least)
        if self.complement and other.complement:
            excluded = (v for v in self.values | other.values if _within(v, gte, lte))
            return Requirement(self.key, True, frozenset(excluded), gte, lte, least)
        kept = frozenset(v for v in self._members(other) if _within(v, gte, lte))
        if not kept:
            return self._nothing(other, least)
        return Requirement(self.key, False, kept, min_values=least)

    def _nothing(self, other: Requirement, least: int | None) -> Requirement:
        """No value is left; absence is, where both accept it."""
        may_lack = self.accepts_absence and other.accepts_absence
        return Requirement(self.key, False, min_values=least, contradicts=not may_lack)

    def _members(self, other: Requirement) -> frozenset[str]:
        if self.complement:
            return other.values - self.values
        return self.values - other.values if other.complement else self.values & other.values

    def intersects(self, other: Requirement) -> bool:
        """SCH-06: whether the intersection is not empty, without building it."""
        gte, lte = _larger(self.gte, other.gte), _smaller(self.lte, other.lte)
        if gte is not None and lte is not None and gte > lte:
            return False
        if self.complement and other.complement:
            return True
        listed, rule = (other, self) if self.complement else (self, other)
        return any(rule.has(value) for value in listed.values)

    def covers(self, other: Requirement) -> bool:
        """Whether every value of ``other`` is allowed here too."""
        both = self.intersect(other)
        return (both.complement, both.values, both.gte, both.lte) == (
            other.complement, other.values, other.gte, other.lte,
        )  # fmt: skip

    def expressions(self, *, exclusive_bounds: bool = False) -> tuple[Expression, ...]:
        """The requirement as expressions. Two bounds become two entries (SCH-05), Gte and Lte, or Gt and
        Lt with ``exclusive_bounds`` for v1alpha5, which has no others (P-05)."""
        found = []
        if self.contradicts:  # No single expression says that nothing matches.
            found.append(Expression(self.key, EXISTS, (), self.min_values))
        if self.values or not self.is_bounded:
            operator = NOT_IN if self.complement and self.values else self.operator
            values = tuple(sorted(self.values))
            found.append(Expression(self.key, operator, values, self.min_values))
        if self.gte is not None:
            bound = (GT, self.gte - 1) if exclusive_bounds else (GTE, self.gte)
            found.append(Expression(self.key, bound[0], (str(bound[1]),), self.min_values))
        if self.lte is not None:
            bound = (LT, self.lte + 1) if exclusive_bounds else (LTE, self.lte)
            found.append(Expression(self.key, bound[0], (str(bound[1]),), self.min_values))
        return tuple(found)

    def __str__(self) -> str:
        """As Karpenter prints it: ``key In [a b]``, at most five values."""
        text = f"{self.key} {self.operator}"
        if self.values:
            shown = sorted(self.values)[:_SHOWN_VALUES]
            more = len(self.values) - len(shown)
            text += f" [{' '.join([*shown, *([f'and {more} others'] if more else [])])}]"
        text += "" if self.gte is None else f" >={self.gte}"
        text += "" if self.lte is None else f" <={self.lte}"
        return text + ("" if self.min_values is None else f" minValues {self.min_values}")


def requirement_of(expression: Expression) -> Requirement:
    """The requirement of an expression, with the current name of a legacy key (SCH-03).

    Raises InvalidObject for an unknown operator, or a bound that is not a non-negative integer (SCH-02).
    """
    key, values = keys.normalise(expression.key), frozenset(expression.values)
    least = expression.min_values
    match expression.operator:
        case "In":
            return Requirement(key, False, values, min_values=least)
        case "NotIn":
            return Requirement(key, True, values, min_values=least)
        case "Exists":
            return Requirement(key, True, min_values=least)
        case "DoesNotExist":
            return Requirement(key, False, min_values=least)
        case "Gt" | "Lt" | "Gte" | "Lte":
            return _bounded(key, expression)
    raise InvalidObject(
        f"operator {expression.operator!r} is unknown; use one of {', '.join(OPERATORS)}",
        field=f"requirement {key}",
    )


def _bounded(key: str, expression: Expression) -> Requirement:
    number = _integer(expression.values[0]) if len(expression.values) == 1 else None
    if number is None or number < 0:
        raise InvalidObject(
            f"operator {expression.operator} needs exactly one non-negative integer,"
            f" not {list(expression.values)!r}",
            field=f"requirement {key}",
        )
    if expression.operator in (GT, GTE):
        low = number + 1 if expression.operator == GT else number
        return Requirement(key, True, gte=low, min_values=expression.min_values)
    high = number - 1 if expression.operator == LT else number
    return Requirement(key, True, lte=high, min_values=expression.min_values)


class Requirements:
    """One requirement per key (SCH-07), sorted by key, immutable and hashable."""

    def __init__(self, requirements: Iterable[Requirement] = ()) -> None:
        found: dict[str, Requirement] = {}
        for requirement in requirements:
            known = found.get(requirement.key)
            found[requirement.key] = known.intersect(requirement) if known else requirement
        self._by_key = {key: found[key] for key in sorted(found)}

    @classmethod
    def of(
        cls, expressions: Iterable[Expression] = (), labels: Mapping[str, str] | None = None
    ) -> Requirements:
        """From written expressions and from labels, each an In of one value (P-02).

        Raises InvalidObject, see ``requirement_of``.
        """
        named = (labels or {}).items()
        fixed = [Requirement(keys.normalise(k), False, frozenset({v})) for k, v in named]
        return cls([*map(requirement_of, expressions), *fixed])

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(self._by_key.values()))

    @cached_property
    def asks_for_values(self) -> bool:
        """Whether a requirement has minValues (SCH-12)."""
        return any(r.min_values is not None for r in self)

    @cached_property
    def asks_for_zone_id(self) -> bool:
        """Whether the zone id is constrained, which narrows the zone too."""
        return keys.ZONE_ID in self._by_key

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Requirements) and self._by_key == other._by_key

    def __iter__(self) -> Iterator[Requirement]:
        return iter(self._by_key.values())

    def __len__(self) -> int:
        return len(self._by_key)

    def __contains__(self, key: str) -> bool:
        return key in self._by_key

    def get(self, key: str) -> Requirement | None:
        """The requirement of a key; None for an unconstrained key."""
        return self._by_key.get(key)

    def add(self, *requirements: Requirement) -> Requirements:
        """These requirements with more; those of equal keys are intersected (SCH-07)."""
        changed: dict[str, Requirement] = {}
        for requirement in requirements:
            known = changed.get(requirement.key) or self._by_key.get(requirement.key)
            both = known.intersect(requirement) if known else requirement
            if both != self._by_key.get(requirement.key):
                changed[requirement.key] = both
        return Requirements([*({**self._by_key, **changed}).values()]) if changed else self

    def intersect(self, other: Requirements) -> Requirements:
        """The intersection with ``other``, key by key."""
        return self.add(*other)

    def with_min_values(self, key: str, least: int) -> Requirements:
        """These requirements with another, possibly smaller, minValues for ``key`` (SCH-12)."""
        return Requirements(replace(r, min_values=least) if r.key == key else r for r in self)

    def without(self, *dropped: str) -> Requirements:
        """Without these keys."""
        if not any(key in self._by_key for key in dropped):
            return self
        return Requirements(r for r in self if r.key not in dropped)

    def incompatibility(
        self, incoming: Requirements, *, allow_undefined: frozenset[str] = frozenset()
    ) -> str | None:
        """SCH-08: why a pod with ``incoming`` cannot be on a node that has these; None when it can.

        ``allow_undefined`` are keys that this side need not define: the well-known labels for a new
        node, none for an existing one (SCH-09). Texts are SCH-08 and SCH-11.
        """
        causes = []
        for wanted in incoming:
            existing = self._by_key.get(wanted.key)
            if wanted.contradicts:
                causes.append(f"the pod's rules for {wanted.key} contradict each other")
            elif existing is None:
                if wanted.key not in allow_undefined and not wanted.accepts_absence:
                    hint = _hint(wanted.key, allow_undefined, tuple(self._by_key))
                    causes.append(f'label "{wanted.key}" does not have known values{hint}')
            elif not _meet(existing, wanted):
                causes.append(f"key {wanted.key}, {wanted} not in {existing}")
        return "; ".join(causes) or None

    def compatible(
        self, incoming: Requirements, *, allow_undefined: frozenset[str] = frozenset()
    ) -> bool:
        """Whether there is no ``incompatibility``, without building its text."""
        for wanted in incoming:
            existing = self._by_key.get(wanted.key)
            if wanted.contradicts:
                return False
            if existing is None:
                if wanted.key not in allow_undefined and not wanted.accepts_absence:
                    return False
            elif not _meet(existing, wanted):
                return False
        return True

    def labels(self) -> dict[str, str]:
        """The labels of keys with exactly one allowed value."""
        found = ((r.key, r.single_value) for r in self)
        return {key: value for key, value in found if value is not None}

    def expressions(self, *, exclusive_bounds: bool = False) -> tuple[Expression, ...]:
        """The requirements as expressions, sorted by key."""
        return tuple(e for r in self for e in r.expressions(exclusive_bounds=exclusive_bounds))

    def __str__(self) -> str:
        return ", ".join(map(str, self))

    def __repr__(self) -> str:
        return f"Requirements({self})"


def _meet(existing: Requirement, wanted: Requirement) -> bool:
    if existing.accepts_absence and wanted.accepts_absence:
        return True
    return existing.intersects(wanted)


@lru_cache(_CACHED_HINTS)
def _hint(key: str, allow_undefined: frozenset[str], own: tuple[str, ...]) -> str:
    """Cached: many pods ask for the same unknown label."""
    for known in (*sorted(allow_undefined), *own):
        if _is_similar(key, known):
            return f' (typo of "{known}"?)'
    return ""


def _is_similar(key: str, known: str) -> bool:
    """Karpenter's hint rule: part of a known key, its last segment, or a small edit distance."""
    if key in known or known.endswith(key.rsplit("/", 1)[-1]):
        return True
    # The distance is at least the difference of the lengths, which costs nothing to know.
    largest = len(known) // 5
    return abs(len(key) - len(known)) < largest and _edit_distance(key, known) < largest


def _edit_distance(left: str, right: str) -> int:
    """The Levenshtein distance; label keys have at most 317 characters, which bounds its cost."""
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        previous, row[0] = row[0], i
        for j, b in enumerate(right, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (a != b))
    return row[-1]
