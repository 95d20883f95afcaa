"""The base class of every schema in ``shared.api.schema``: one declaration defines the CRD and checks objects.

The type, bounds and attribute docstring of a field become its OpenAPI schema. A ``Rule`` is a condition over several
fields, declared both as a CEL expression for the API server and as a function, because the server may not have our
schema (F28). All faults of an object are found at once, also those of fields and of rules together.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import InitErrorDetails, PydanticCustomError

from shared.api.faults import Fault, Path

Json = Mapping[str, Any]
Check = Callable[[Json], Iterable[tuple[Path, str]]]
"""Yields (path below the object, message) for each fault of an unchecked object."""

UNKNOWN_FIELDS = {"unknown": "refuse"}
"""Validation context: report unknown fields, as kubectl does on apply."""
UNKNOWN_FIELD = "unknown field"
"""Start of the message about an unknown field."""


@dataclass(frozen=True)
class Rule:
    """A condition over several fields of one object.

    The API server evaluates ``cel`` with ``self`` bound to this object (and ``oldSelf`` on updates) and answers with
    ``message``; an empty ``cel`` means that CEL cannot express the rule. ``check`` finds the same faults when the
    object is read; None for a transition rule, which only an update can break.
    """

    message: str
    cel: str = ""
    check: Check | None = None


class ApiModel(BaseModel):
    """An object of the API: camelCase names, exact types, null means absent."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="ignore",
        strict=True,
        frozen=True,
        allow_inf_nan=False,
        defer_build=True,  # a command reads a few kinds, and need not wait for the validators of all
    )
    RULES: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="wrap")
    @classmethod
    def _collect(
        cls, raw: Any, handler: ModelWrapValidatorHandler[Any], info: ValidationInfo
    ) -> Any:
        """Field faults and broken rules together; pydantic alone would skip the rules after the first field fault."""
        if not isinstance(raw, Mapping):
            return handler(raw)
        given = {key: value for key, value in raw.items() if value is not None}
        broken = [
            *cls._broken(given),
            *(cls._unknown(raw) if info.context == UNKNOWN_FIELDS else ()),
        ]
        problems = [_problem(path, text) for path, text in broken]
        try:
            model = handler(given)
        except ValidationError as error:
            problems += [_again(line) for line in error.errors(include_url=False)]
            raise ValidationError.from_exception_data(cls.__name__, problems) from None
        if problems:
            raise ValidationError.from_exception_data(cls.__name__, problems)
        return model

    @classmethod
    def _broken(cls, given: Json) -> Iterable[tuple[Path, str]]:
        for rule in cls.RULES:
            if rule.check is not None:
                yield from rule.check(given)

    @classmethod
    def _unknown(cls, raw: Json) -> Iterable[tuple[Path, str]]:
        known = {field.alias or name for name, field in cls.model_fields.items()}
        empty = ""
        for key, value in raw.items():
            if key in known or value is None:
                # Lines that lost their indentation are fields behind one without a value.
                empty = str(key) if value is None and key in known else ""
                continue
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = (
                f"; did you mean {near[0]}?"
                if near
                else f"; indent it below {empty}"
                if empty
                else ""
            )
            yield (str(key),), f"{UNKNOWN_FIELD}{hint}"


Model = TypeVar("Model", bound=ApiModel)


def read(
    model: type[Model], raw: object, *, at: Path = (), context: Mapping[str, str] | None = None
) -> tuple[Model | None, list[Fault]]:
    """``raw`` as ``model``, or None and every fault, with paths that begin at ``at``. Never raises."""
    try:
        return _read(model, raw, at, context)
    except RecursionError:
        return None, [Fault(at, "is nested too deeply")]
    except (
        UnicodeEncodeError
    ):  # half of a surrogate pair, which pydantic cannot encode for its message
        return None, [Fault(at, "holds a string that is not valid Unicode")]


def _read(
    model: type[Model], raw: object, at: Path, context: Mapping[str, str] | None
) -> tuple[Model | None, list[Fault]]:
    try:
        return model.model_validate(raw, context=context), []
    except ValidationError as error:
        faults = {
            Fault((*at, *_path(line["loc"])), _message(line))
            for line in error.errors(include_url=False)
        }
        return None, sorted(faults, key=lambda fault: (str(fault), fault.message))


def _problem(path: Path, message: str) -> InitErrorDetails:
    # Braces are template syntax to pydantic: the message travels as a value.
    error = PydanticCustomError("rule", "{text}", {"text": message})
    return InitErrorDetails(type=error, loc=path, input=None)


def _again(line: Any) -> InitErrorDetails:
    """One line of a caught ValidationError, with our message, to be raised again with other faults."""
    return _problem(tuple(line["loc"]), _message(line))


def _path(loc: tuple[str | int, ...]) -> Path:
    """pydantic adds ``[key]`` where the key of a map is at fault."""
    return tuple(part for part in loc if part != "[key]")


_MESSAGES: dict[str, str] = {
    "missing": "is required",
    "string_type": "must be a string; put it in quotes",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "float_type": "must be a number",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "literal_error": "{shown} is not one of {expected}",
    "string_pattern_mismatch": "{shown} does not match {pattern}",
    "string_too_long": "has more than {max_length} characters",
    "string_too_short": "has fewer than {min_length} characters",
    "too_long": "has more than {max_length} entries",
    "too_short": "has fewer than {min_length} entries",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "int_parsing_size": "is too large",
}
LONGEST_SHOWN = 40


def _message(line: Any) -> str:
    """The message for one line of a ValidationError, in terms of YAML."""
    template = _MESSAGES.get(line["type"])
    if line["type"] == "literal_error" and " or " not in line["ctx"]["expected"]:
        template = "{shown} is not supported; write {expected}"
    if template is None:
        return str(line["msg"]).removeprefix("Value error, ")
    shown = repr(line.get("input")) if "{shown}" in template else ""  # an input may be a megabyte
    if len(shown) > LONGEST_SHOWN:
        shown = shown[:LONGEST_SHOWN] + "…"
    return template.format(shown=shown, **line.get("ctx", {}))
