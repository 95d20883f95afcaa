"""Access and token reviews of ``kubectl auth``, which are answered at once and not stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from local.cluster.api.authorization.attributes import Attributes
from local.cluster.api.authorization.authentication import Access
from local.cluster.api.authorization.tokens import AUDIENCE
from local.cluster.api.authorization.users import User
from local.cluster.api.errors import bad_request, no_such_path
from local.cluster.builtin.resources import REVIEWS

Document = dict[str, Any]


def review(access: Access, user: User, plural: str, namespace: str, body: Document) -> Document:
    """The answered review of the kind ``plural``, requested by ``user`` in ``namespace`` (empty: none).

    Raises ApiError 404 for a kind that is no review, 400 for an incomplete review.
    """
    resource = next((one for one in REVIEWS if one.plural == plural), None)
    if resource is None:
        raise no_such_path()
    spec = body.get("spec") or {}
    if not isinstance(spec, dict):
        raise bad_request("spec must be an object")
    status = _ANSWERS[plural](access, user, namespace, spec)
    return {**body, "kind": resource.kind, "apiVersion": resource.api_version, "status": status}


def _own_access(access: Access, user: User, _namespace: str, spec: Document) -> Document:
    return _decided(access, user, _attributes(spec))


def _access(access: Access, _user: User, _namespace: str, spec: Document) -> Document:
    return _decided(access, _subject(spec), _attributes(spec))


def _local_access(access: Access, _user: User, namespace: str, spec: Document) -> Document:
    attributes = _attributes(spec)
    if attributes.namespace != namespace:
        raise bad_request(
            f"spec.resourceAttributes.namespace must be {namespace}, the namespace of the path"
        )
    return _decided(access, _subject(spec), attributes)


def _decided(access: Access, user: User, attributes: Attributes) -> Document:
    decision = access.authorizer.decide(user, attributes)
    status: Document = {"allowed": decision.allowed}
    return status | ({"reason": decision.reason} if decision.reason else {})


def _subject(spec: Document) -> User:
    name, groups = spec.get("user") or "", tuple(spec.get("groups") or ())
    if not name and not groups:
        raise bad_request("spec.user: Required value: give spec.user or spec.groups")
    return User(str(name), groups)


def _attributes(spec: Document) -> Attributes:
    on_resource = spec.get("resourceAttributes") or {}
    on_path = spec.get("nonResourceAttributes") or {}
    if bool(on_resource) == bool(on_path):
        raise bad_request("give one of spec.resourceAttributes and spec.nonResourceAttributes")
    if on_path:
        return Attributes(_text(on_path, "verb"), path=_text(on_path, "path"))
    fields = ("verb", "group", "version", "resource", "subresource", "namespace", "name")
    return Attributes(**{field: _text(on_resource, field) for field in fields})


def _text(document: Document, field: str) -> str:
    return str(document.get(field) or "")


def _own_rules(access: Access, user: User, _namespace: str, spec: Document) -> Document:
    namespace = _text(spec, "namespace")
    if not namespace:
        raise bad_request("spec.namespace: Required value: no namespace on request")
    rules = access.authorizer.rules_of(user, namespace)
    on_paths = [rule for rule in rules if rule.get("nonResourceURLs")]
    return {
        "resourceRules": [rule for rule in rules if not rule.get("nonResourceURLs")],
        "nonResourceRules": on_paths,
        "incomplete": False,
    }


def _own_identity(_access: Access, user: User, _namespace: str, _spec: Document) -> Document:
    return {"userInfo": user.info()}


def _token(access: Access, _user: User, _namespace: str, spec: Document) -> Document:
    found = access.tokens.identify(_text(spec, "token"))
    meant_for = spec.get("audiences") or [AUDIENCE]
    audiences = [one for one in meant_for if found and one in found.audiences]
    if found is None or not audiences:
        return {"user": {}, "error": "the token is wrong, has ended or is meant for another server"}
    return {"authenticated": True, "user": found.user.info(), "audiences": audiences}


_ANSWERS: dict[str, Callable[[Access, User, str, Document], Document]] = {
    "localsubjectaccessreviews": _local_access,
    "selfsubjectaccessreviews": _own_access,
    "selfsubjectreviews": _own_identity,
    "selfsubjectrulesreviews": _own_rules,
    "subjectaccessreviews": _access,
    "tokenreviews": _token,
}
