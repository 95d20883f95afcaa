"""Validation and defaults of Roles, ClusterRoles and their bindings, as on a real server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from local.cluster.api.errors import (
    FieldError,
    forbidden_field,
    invalid_value,
    required,
    unsupported_value,
)
from local.cluster.builtin.resources import RBAC_GROUP

Document = dict[str, Any]
ROLES = frozenset({"clusterroles", "roles"})
BINDINGS = frozenset({"clusterrolebindings", "rolebindings"})
_LISTS = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")


def default_binding(binding: Document) -> None:
    """Set the API groups of the role and of the subjects, in place."""
    reference = binding.get("roleRef") or {}
    reference.setdefault("apiGroup", RBAC_GROUP)
    for subject in binding.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", RBAC_GROUP)


def role_errors(role: Document, *, namespaced: bool) -> Iterator[FieldError]:
    """Errors of a role's rules. Raises TypeError for a rule of the wrong type."""
    for number, rule in enumerate(role.get("rules") or ()):
        yield from _rule_errors(f"rules[{number}]", rule, namespaced)


def _rule_errors(path: str, rule: Document, namespaced: bool) -> Iterator[FieldError]:
    for field in _LISTS:
        _check_strings(f"{path}.{field}", rule.get(field))
    if not rule.get("verbs"):
        yield required(f"{path}.verbs", "verbs must contain at least one value")
    if rule.get("nonResourceURLs"):
        yield from _path_rule_errors(path, rule, namespaced)
        return
    if not rule.get("apiGroups"):
        yield required(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        yield required(f"{path}.resources", "resource rules must supply at least one resource")


def _path_rule_errors(path: str, rule: Document, namespaced: bool) -> Iterator[FieldError]:
    urls = rule["nonResourceURLs"]
    if namespaced:
        text = "namespaced rules cannot apply to non-resource URLs"
        yield invalid_value(f"{path}.nonResourceURLs", urls, text)
    if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
        text = "rules cannot apply to both regular resources and non-resource URLs"
        yield invalid_value(f"{path}.nonResourceURLs", urls, text)


def _check_strings(path: str, value: object) -> None:
    listed = value is None or isinstance(value, list)
    if not listed or not all(isinstance(one, str) for one in value or ()):  # type: ignore[attr-defined]
        raise TypeError(f"{path} must be a list of strings")


def binding_errors(binding: Document, *, namespaced: bool) -> Iterator[FieldError]:
    """Errors of a binding's role and subjects."""
    reference = binding.get("roleRef") or {}
    kinds = ["Role", "ClusterRole"] if namespaced else ["ClusterRole"]
    if reference.get("apiGroup") != RBAC_GROUP:
        yield unsupported_value("roleRef.apiGroup", reference.get("apiGroup"), [RBAC_GROUP])
    if reference.get("kind") not in kinds:
        yield unsupported_value("roleRef.kind", reference.get("kind", ""), kinds)
    if not reference.get("name"):
        yield required("roleRef.name")
    for number, subject in enumerate(binding.get("subjects") or ()):
        yield from _subject_errors(f"subjects[{number}]", subject)


def _subject_errors(path: str, subject: Document) -> Iterator[FieldError]:
    if not subject.get("name"):
        yield required(f"{path}.name")
    kind = subject.get("kind", "")
    if kind == "ServiceAccount":
        if not subject.get("namespace"):
            yield required(f"{path}.namespace")
    elif kind not in ("User", "Group"):
        yield unsupported_value(f"{path}.kind", kind, ["ServiceAccount", "User", "Group"])
    elif subject.get("namespace"):
        yield forbidden_field(f"{path}.namespace", "users and groups have no namespace")


def reference_changed(old: Document, new: Document) -> FieldError | None:
    """The error of a changed roleRef, which is immutable; None when it is unchanged."""
    if old.get("roleRef") == new.get("roleRef"):
        return None
    return invalid_value("roleRef", new.get("roleRef"), "cannot change roleRef")
