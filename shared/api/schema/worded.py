"""Text of a pattern whose fault shows an example: a long pattern tells people nothing."""

from __future__ import annotations

import re

from pydantic import AfterValidator, WithJsonSchema

LONGEST_TEXT = 64


def worded(pattern: str, example: str) -> tuple[AfterValidator, WithJsonSchema]:
    """To mark a ``str`` with: ``Annotated[str, *worded(r"^[0-9]+s$", "5s")]``."""
    form = re.compile(pattern)

    def check(text: str) -> str:
        if len(text) > LONGEST_TEXT or form.fullmatch(text) is None:
            raise ValueError(f"{text[:40]!r} is not understood; write for example {example}")
        return text

    schema = {"type": "string", "pattern": pattern, "maxLength": LONGEST_TEXT}
    return AfterValidator(check), WithJsonSchema(schema)
