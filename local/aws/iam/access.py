"""Who acts as which role in an EKS cluster: access entries and Pod Identity associations, which moto lacks.

Of both: create, list, describe and delete, as REST calls below ``/clusters/NAME/``. Bodies are kept as they were sent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote

from moto.eks.models import eks_backends

from local.aws.moto.state import ACCOUNT_ID, new_id

Json = dict[str, Any]
Answer = tuple[int, Json]
"""HTTP status and body; an error's body has ``__type``."""


@dataclass(frozen=True)
class Kind:
    """One kind of object of a cluster."""

    one: str
    """Field of an answer with one object."""
    many: str
    identity: str
    """Field that names the object in paths."""
    required: tuple[str, ...]
    unique: tuple[str, ...]
    """Fields of which no two objects of a cluster have the same."""
    listed: Callable[[Json], Any]
    """What a list has of an object."""


KINDS = {
    "access-entries": Kind(
        "accessEntry",
        "accessEntries",
        "principalArn",
        ("principalArn",),
        ("principalArn",),
        lambda one: one["principalArn"],
    ),
    "pod-identity-associations": Kind(
        "association",
        "associations",
        "associationId",
        ("namespace", "serviceAccount", "roleArn"),
        ("namespace", "serviceAccount"),
        lambda one: one,
    ),
}


class Access:
    """The objects of all clusters."""

    def __init__(self) -> None:
        self._objects: dict[tuple[str, str], list[Json]] = {}

    def clear(self) -> None:
        """Forget all."""
        self._objects.clear()

    def answer(self, method: str, path: str, query: str, body: Json, region: str) -> Answer | None:
        """The answer to a call; None for a path of another kind, which moto answers."""
        # The last part may be an ARN, which has slashes of its own.
        clusters, name, kind, identity = (*path.strip("/").split("/", 3), "", "", "")[:4]
        if clusters != "clusters" or kind not in KINDS:
            return None
        if name not in eks_backends[ACCOUNT_ID][region].clusters:
            return _error(404, "ResourceNotFoundException", f"No cluster found for name: {name}.")
        objects = self._objects.setdefault((name, kind), [])
        if method == "POST":
            return _create(objects, KINDS[kind], {**body, "clusterName": name})
        if identity:
            return _named(objects, KINDS[kind], unquote(identity), method)
        return _list(objects, KINDS[kind], query)


def _create(objects: list[Json], kind: Kind, new: Json) -> Answer:
    if missing := [field for field in kind.required if not new.get(field)]:
        return _error(400, "InvalidParameterException", f"{missing[0]} is required")
    if any(all(one[field] == new[field] for field in kind.unique) for one in objects):
        text = f"The {kind.one} already exists: {', '.join(new[field] for field in kind.unique)}"
        return _error(409, "ResourceInUseException", text)
    if kind.identity not in kind.required:
        new[kind.identity] = new_id("a-")
    objects.append(new)
    return 200, {kind.one: new}


def _named(objects: list[Json], kind: Kind, identity: str, method: str) -> Answer:
    for one in objects:
        if one[kind.identity] == identity:
            if method == "DELETE":
                objects.remove(one)
            return 200, {kind.one: one}
    return _error(404, "ResourceNotFoundException", f"No {kind.one} found for {identity}")


def _list(objects: list[Json], kind: Kind, query: str) -> Answer:
    wanted = {name: values[0] for name, values in parse_qs(query).items()}
    found = [
        kind.listed(one)
        for one in objects
        if all(one[name] == value for name, value in wanted.items() if name in kind.unique)
    ]
    return 200, {kind.many: found}


def _error(status: int, code: str, message: str) -> Answer:
    return status, {"__type": code, "message": message}
