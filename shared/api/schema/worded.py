"""A string type with a pattern, whose error message shows an example instead of the pattern."""

from __future__ import annotations

import re

from pydantic import AfterValidator, WithJsonSchema

LONGEST_TEXT = 64


def worded(pattern: str, example: str) -> tuple[AfterValidator, WithJsonSchema]:
    """Annotations for a ``str``: ``Annotated[str, *worded(r"^[0-9]+s$", "5s")]``."""
    form = re.compile(pattern)

    def check(text: str) -> str:
        if len(text) > LONGEST_TEXT or form.fullmatch(text) is None:
            raise ValueError(f"{text[:40]!r} has the wrong format; write for example {example}")
        return text

    schema = {"type": "string", "pattern": pattern, "maxLength": LONGEST_TEXT}
    return AfterValidator(check), WithJsonSchema(schema)
