"""The subset of JSONPath that additionalPrinterColumns use.

Fields (``.a.b``, ``['a/b']``, ``\\.`` inside a name), indexes, ``[*]`` and filters on one field
(``[?(@.type=="Ready")]``). The first match is shown, as on a real server. An expression outside this subset gives an
empty cell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

Step = Callable[[Any], Iterator[Any]]

_TOKEN = re.compile(
    r"""\.(?P<field>(?:\\.|[^.\[\\])+)
    |\[\s*['"](?P<quoted>[^'"]+)['"]\s*\]
    |\[(?P<index>-?\d+)\]
    |\[(?P<all>\*)\]
    |\[\?\(\s*@\.(?P<key>[\w.-]+)\s*==\s*(?P<value>"[^"]*"|'[^']*'|\w+)\s*\)\]""",
    re.VERBOSE,
)


def _field(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _index(position: int) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= position < len(value):
            yield value[position]

    return step


def _every(value: Any) -> Iterator[Any]:
    yield from value if isinstance(value, list) else ()


def _filter(key: str, expected: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        for entry in value if isinstance(value, list) else ():
            if isinstance(entry, dict) and str(entry.get(key)) == expected:
                yield entry

    return step


def _step(match: re.Match[str]) -> Step:
    if match["field"] is not None:
        return _field(match["field"].replace("\\", ""))
    if match["quoted"] is not None:
        return _field(match["quoted"])
    if match["index"] is not None:
        return _index(int(match["index"]))
    return _every if match["all"] else _filter(match["key"], match["value"].strip("\"'"))


def compile_path(text: str) -> Callable[[Any], Any]:
    """A function from a document to the first value at ``text``, None when there is none."""
    text = text.strip().removeprefix("{").removesuffix("}")
    matches = list(_TOKEN.finditer(text))
    if "".join(match[0] for match in matches) != text:
        return lambda _document: None
    steps = [_step(match) for match in matches]

    def first(document: Any) -> Any:
        values = [document]
        for step in steps:
            values = [found for value in values for found in step(value)]
        return values[0] if values else None

    return first
