"""The failures of a Kubernetes API server, as one exception that renders to a ``Status`` object.

Codes, reasons and texts follow apimachinery's ``errors.go`` and ``field/errors.go``, because clients match on
``reason`` and ``details``, and people know the messages.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from local.cluster.builtin.resources import Resource
from shared.errors import DovetailError


class ApiError(DovetailError):
    """An answer other than success. ``details`` is the Status' ``details`` object."""

    def __init__(
        self, code: int, reason: str, message: str, details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message, code=code, reason=reason)
        self.code = code
        self.reason = reason
        self.details = details or {}

    def status(self) -> dict[str, Any]:
        """The ``v1.Status`` object of this failure."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": self.details,
            "code": self.code,
        }


@dataclass(frozen=True)
class FieldError:
    """One invalid field: ``field`` is a path such as ``spec.containers[0].image``."""

    field: str
    reason: str
    message: str

    def cause(self) -> dict[str, str]:
        """The entry of ``details.causes``."""
        return {"reason": self.reason, "message": self.message, "field": self.field}


def required(field: str, detail: str = "") -> FieldError:
    """A required field that is missing."""
    text = f"Required value: {detail}" if detail else "Required value"
    return FieldError(field, "FieldValueRequired", text)


def invalid_value(field: str, value: Any, detail: str) -> FieldError:
    """A field whose value breaks a rule. ``value`` is shown as JSON."""
    return FieldError(field, "FieldValueInvalid", f"Invalid value: {_shown(value)}: {detail}")


def wrong_type(field: str, value: Any, detail: str) -> FieldError:
    """A field of another JSON type than the schema has."""
    return FieldError(field, "FieldValueTypeInvalid", f"Invalid value: {_shown(value)}: {detail}")


def unsupported_value(field: str, value: Any, supported: list[Any]) -> FieldError:
    """A field outside its enumeration."""
    choices = ", ".join(_shown(choice) for choice in supported)
    text = f"Unsupported value: {_shown(value)}: supported values: {choices}"
    return FieldError(field, "FieldValueNotSupported", text)


def too_long(field: str, limit: int) -> FieldError:
    """Text above its length. The value is not repeated."""
    return FieldError(field, "FieldValueTooLong", f"Too long: may not be more than {limit} bytes")


def too_many(field: str, count: int, limit: int) -> FieldError:
    """A list or map with more entries than allowed."""
    text = f"Too many: {count}: must have at most {limit} items"
    return FieldError(field, "FieldValueTooMany", text)


def forbidden_field(field: str, detail: str) -> FieldError:
    """A field that may not be set or changed now."""
    return FieldError(field, "FieldValueForbidden", f"Forbidden: {detail}")


def duplicate_value(field: str, value: Any) -> FieldError:
    """A list entry that appears twice although its key must be unique."""
    return FieldError(field, "FieldValueDuplicate", f"Duplicate value: {_shown(value)}")


def _shown(value: Any) -> str:
    # Of any size: orjson refuses whole numbers beyond 64 bits.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _details(resource: Resource, name: str) -> dict[str, Any]:
    details: dict[str, Any] = {"name": name, "kind": resource.plural}
    return details | ({"group": resource.group} if resource.group else {})


def not_found(resource: Resource, name: str) -> ApiError:
    """404 for a named object."""
    message = f'{resource.qualified} "{name}" not found'
    return ApiError(404, "NotFound", message, _details(resource, name))


def no_such_path() -> ApiError:
    """404 for a path, group, version or resource that is not served."""
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def already_exists(resource: Resource, name: str) -> ApiError:
    """409 for a create of a taken name."""
    message = f'{resource.qualified} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, _details(resource, name))


MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def conflict(resource: Resource, name: str, why: str = MODIFIED) -> ApiError:
    """409 for a failed compare-and-set or a failed precondition."""
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(resource, name))


def invalid(resource: Resource, name: str, errors: list[FieldError]) -> ApiError:
    """422 that names every invalid field."""
    texts = [f"{error.field}: {error.message}" for error in errors]
    shown = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    details: dict[str, Any] = {"name": name, "kind": resource.kind}
    if resource.group:
        details["group"] = resource.group
    details["causes"] = [error.cause() for error in errors]
    return ApiError(422, "Invalid", f'{kind} "{name}" is invalid: {shown}', details)


def bad_request(message: str) -> ApiError:
    """400: the request itself is malformed."""
    return ApiError(400, "BadRequest", message)


def other_name(given: str, name: str) -> ApiError:
    """400: body and path name different objects."""
    text = f"the name of the object ({given}) does not match the name on the URL ({name})"
    return bad_request(text)


def not_decoded(value: Any, expected: str) -> ApiError:
    """400: a patch of the wrong JSON type. ``expected``: the real server's name of the expected type."""
    kinds = {dict: "object", list: "array", str: "string", bool: "bool"}
    kind = kinds.get(type(value), "number")
    text = f"json: cannot unmarshal {kind} into Go value of type {expected}"
    return bad_request(f"error decoding patch: {text}")


def forbidden(resource: Resource, name: str, why: str) -> ApiError:
    """403 for a request that admission refuses."""
    message = f'{resource.qualified} "{name}" is forbidden: {why}'
    return ApiError(403, "Forbidden", message, _details(resource, name))


def expired(message: str) -> ApiError:
    """410: a watch or list position is older than the kept changes. The client must list again."""
    return ApiError(410, "Expired", message)


def method_not_allowed() -> ApiError:
    """405 for a verb that the resource does not have."""
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message)


def unsupported_media_type(accepted: str) -> ApiError:
    """415; ``accepted`` lists the supported media types."""
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        + accepted
    )
    return ApiError(415, "UnsupportedMediaType", message)
