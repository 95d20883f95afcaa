"""Label and field selectors: the query strings of list and watch, and the ``LabelSelector`` objects of specs.

Grammar and meaning follow apimachinery's ``labels/selector.go`` and ``fields/selector.go``: ``notin`` and ``!=`` also
match objects without the label. A malformed selector is answered with 400 and never matches everything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from local.cluster.api.errors import bad_request

Predicate = Callable[[dict[str, Any]], bool]
"""Whether a whole object matches."""
Labels = Mapping[str, str]
LabelPredicate = Callable[[Labels], bool]

_KEY = r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_SET = re.compile(rf"^({_KEY})\s+(in|notin)\s*\(([^()]*)\)$")
_EQUALITY = re.compile(rf"^({_KEY})\s*(==|=|!=)\s*({_VALUE})$")
_NUMBER = re.compile(rf"^({_KEY})\s*([<>])\s*(-?\d+)$")
_EXISTENCE = re.compile(rf"^(!?)\s*({_KEY})$")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_SINGLE_VALUE = re.compile(rf"^{_VALUE}$")
_PARTS = re.compile(r"(?:[^,(]|\([^)]*\))+")


@dataclass(frozen=True)
class LabelRequirement:
    """One term. ``operator``: In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Labels) -> bool:
        """Whether the labels satisfy this term. An unknown operator matches nothing."""
        value = labels.get(self.key)
        if self.operator == "In":
            return value in self.values
        if self.operator == "NotIn":
            return value not in self.values
        if self.operator == "Exists":
            return value is not None
        if self.operator == "DoesNotExist":
            return value is None
        return self.operator in ("Gt", "Lt") and self._compares(value)

    def _compares(self, value: str | None) -> bool:
        number, bound = _integer(value), _integer(next(iter(self.values), None))
        if number is None or bound is None:
            return False
        return number > bound if self.operator == "Gt" else number < bound


def _integer(text: str | None) -> int | None:
    return int(text) if text is not None and _INTEGER.fullmatch(text) else None


def parse_label_selector(text: str) -> list[LabelRequirement]:
    """Terms of ``a=b,c in (d,e),!f``. Raises ApiError 400 that shows the invalid part."""
    stripped = text.strip()
    if not stripped:
        return []
    parts = _PARTS.findall(stripped)
    if ",".join(parts) != stripped:
        raise bad_request(f'unable to parse requirement: "{text}" has an empty or open term')
    return [_label_requirement(part.strip()) for part in parts]


def _label_requirement(part: str) -> LabelRequirement:
    if match := _SET.match(part):
        operator = "In" if match[2] == "in" else "NotIn"
        return LabelRequirement(match[1], operator, _set_values(match[3], part))
    if match := _EQUALITY.match(part):
        operator = "NotIn" if match[2] == "!=" else "In"
        return LabelRequirement(match[1], operator, frozenset({match[3]}))
    if match := _NUMBER.match(part):
        return LabelRequirement(match[1], "Gt" if match[2] == ">" else "Lt", frozenset({match[3]}))
    if match := _EXISTENCE.match(part):
        return LabelRequirement(match[2], "DoesNotExist" if match[1] else "Exists")
    raise bad_request(f'unable to parse requirement: "{part}" is not key, key=value or key in (…)')


def _set_values(text: str, part: str) -> frozenset[str]:
    values = [value.strip() for value in text.split(",")]
    if not all(_SINGLE_VALUE.match(value) for value in values):
        raise bad_request(f'unable to parse requirement: "{part}" has an invalid label value')
    return frozenset(values)


def requirement(expression: Mapping[str, Any]) -> LabelRequirement:
    """The term of a ``LabelSelectorRequirement`` or ``NodeSelectorRequirement`` object."""
    values = frozenset(str(value) for value in expression.get("values") or ())
    return LabelRequirement(expression["key"], expression["operator"], values)


def label_predicate(selector: Mapping[str, Any] | None) -> LabelPredicate:
    """A ``metav1.LabelSelector`` as a predicate over labels: None matches nothing, ``{}`` everything."""
    if selector is None:
        return lambda _labels: False
    labels = selector.get("matchLabels") or {}
    terms = [LabelRequirement(key, "In", frozenset({value})) for key, value in labels.items()]
    terms += [requirement(term) for term in selector.get("matchExpressions") or ()]
    return lambda labels: all(term.matches(labels) for term in terms)


def selector_matches(selector: Mapping[str, Any] | None, labels: Labels) -> bool:
    """Whether a ``LabelSelector`` matches the labels, as in ``label_predicate``."""
    return label_predicate(selector)(labels)


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """A ``LabelSelector`` as the equivalent query string."""
    forms = {"Exists": "{k}", "DoesNotExist": "!{k}", "NotIn": "{k} notin ({v})"}
    texts = [f"{k}={v}" for k, v in ((selector or {}).get("matchLabels") or {}).items()]
    for term in (selector or {}).get("matchExpressions") or []:
        form = forms.get(term["operator"], "{k} in ({v})")
        texts.append(form.format(k=term["key"], v=",".join(sorted(term.get("values") or ()))))
    return ",".join(texts)


_FIELD = re.compile(r"^([^!=]+?)(!=|==|=)((?:[^,=\\]|\\.)*)$")
_FIELD_PARTS = re.compile(r"(?:[^,\\]|\\.)+")


def parse_field_selector(text: str) -> list[tuple[tuple[str, ...], str, bool]]:
    """(path, value, equal) of every term of ``spec.nodeName=a,status.phase!=b``.

    Raises ApiError 400.
    """
    terms = []
    for part in _FIELD_PARTS.findall(text.strip()):
        match = _FIELD.match(part.strip())
        if match is None:
            raise bad_request(
                f'invalid field selector: "{part}"; it must be path=value or path!=value'
            )
        value = re.sub(r"\\(.)", r"\1", match[3])
        terms.append((tuple(match[1].strip().split(".")), value, match[2] != "!="))
    return terms


def field_text(document: Any, path: tuple[str, ...]) -> str:
    """The value at ``path`` as selectors compare it: a missing value is empty, booleans are in lower case."""
    for name in path:
        if not isinstance(document, dict):
            return ""
        document = document.get(name)
    if document is None:
        return ""
    return str(document).lower() if isinstance(document, bool) else str(document)


def object_predicate(label_selector: str | None, field_selector: str | None) -> Predicate | None:
    """One predicate for both selectors; None when everything matches. Raises ApiError 400."""
    labels = parse_label_selector(label_selector or "")
    fields = parse_field_selector(field_selector or "")
    if not labels and not fields:
        return None
    if (
        not labels and len(fields) == 1
    ):  # as for the pods of a node, the most frequent list with a selector
        path, value, equal = fields[0]
        return lambda document: (field_text(document, path) == value) is equal

    def matches(document: dict[str, Any]) -> bool:
        present = document["metadata"].get("labels") or {}
        if not all(term.matches(present) for term in labels):
            return False
        return all((field_text(document, path) == value) is equal for path, value, equal in fields)

    return matches
