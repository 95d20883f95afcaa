"""Parses YAML into documents with the line and column of each field, and reports faults of the YAML itself.

The parser reads the events of libyaml instead of PyYAML's objects. So positions are known, duplicate keys are found,
and nesting and aliases are bounded while reading (a few lines of aliases can expand to a billion values). Values are
the same as in kubectl: keys are strings, dates stay strings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, NamedTuple

import yaml

from cli.manifests.yaml_quick import json_parts, quick_values
from cli.manifests.yaml_scalars import scalar_value
from shared.api.faults import Path

DEPTH_LIMIT = 100
VALUE_LIMIT = 1_000_000
"""Values of one file. An alias counts once for each use."""
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE = "<<"
_CORRECTIONS = {
    "did not find expected <document start>": "start the document after '...' with '---'",
    "mapping values are not allowed in this context": "check this line for a second ': ', and check its indentation",
    "did not find expected key": "check the indentation of this line and the line above",
    "did not find expected '-' indicator": "check the indentation of this line and the line above",
    "could not find expected ':'": "a ':' is missing, or the indentation is wrong",
    "found character that cannot start any token": "put the value in quotes",
    "did not find expected ',' or ']'": "close the list, or put its values in quotes",
    "did not find expected ',' or '}'": "close the braces, or put the values in quotes",
}
"""libyaml's message -> the usual correction."""
_TEMPLATES = ("{{", "${", "$(", "{%")
"""Of Helm, Terraform, shells and Jinja."""


class Place(NamedTuple):
    """Line and column, both counted from 1."""

    line: int
    column: int


START = Place(1, 1)


class FormFault(NamedTuple):
    """A fault of the YAML itself, before any schema is applied."""

    path: Path
    place: Place
    message: str


@dataclass
class YamlDocument:
    """One document. ``value`` is JSON-like; ``places`` maps each path to its position, the root is ``()``."""

    value: Any = None
    places: dict[Path, Place] = field(default_factory=dict)
    faults: list[FormFault] = field(default_factory=list)
    read_places: Callable[[], dict[Path, Place]] | None = None
    """Reads the places, which a document that was read quickly does not have."""

    def place_of(self, path: Path) -> Place:
        """The position of the field, or of its nearest existing parent."""
        if self.read_places is not None:
            self.places, self.read_places = self.read_places(), None
        for length in range(len(path), -1, -1):
            found = self.places.get(path[:length])
            if found is not None:
                return found
        return START


def read_yaml(text: str) -> tuple[list[YamlDocument], FormFault | None]:
    """The documents of ``text``, and the fault at which parsing stopped, if any. Never raises.

    JSON objects may follow each other without a separator, as jq prints them and kubectl reads them.
    """
    values = quick_values(text, _LOADER, VALUE_LIMIT, DEPTH_LIMIT)
    if values is None:
        return _read_stream(text) or read_carefully(text)
    again = cache(partial(read_carefully, text))
    return [
        YamlDocument(value, read_places=lambda at=at: again()[0][at].places)  # type: ignore[misc]
        for at, value in enumerate(values)
    ], None


def _read_stream(text: str) -> tuple[list[YamlDocument], FormFault | None] | None:
    """The JSON objects that follow each other in ``text``; None if that is not what it is."""
    documents: list[YamlDocument] = []
    for start, end in json_parts(text):
        line, column = text.count("\n", 0, start), start - text.rfind("\n", 0, start) - 1
        found, broken = read_carefully(text[start:end])
        documents += [_moved(one, line, column) for one in found]
        if broken is not None:
            return documents, broken._replace(place=_moved_place(broken.place, line, column))
    return (documents, None) if documents else None


def _moved(document: YamlDocument, line: int, column: int) -> YamlDocument:
    places = {path: _moved_place(at, line, column) for path, at in document.places.items()}
    faults = [one._replace(place=_moved_place(one.place, line, column)) for one in document.faults]
    return YamlDocument(document.value, places, faults)


def _moved_place(place: Place, line: int, column: int) -> Place:
    return Place(place.line + line, place.column + (column if place.line == 1 else 0))


def read_carefully(text: str) -> tuple[list[YamlDocument], FormFault | None]:
    """As ``read_yaml``, with the position of every field from the beginning."""
    documents: list[YamlDocument] = []
    try:
        events = iter(yaml.parse(text, Loader=_LOADER))
        builder = _Builder()
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents.append(builder.read(events))
    except yaml.MarkedYAMLError as error:
        return documents, _syntax_fault(error, text)
    except yaml.reader.ReaderError as error:
        return documents, FormFault((), _place_at(text, error.position), f"{error.reason}")
    except _Refused as refused:
        return documents, refused.fault
    return documents, None


def _syntax_fault(error: yaml.MarkedYAMLError, text: str) -> FormFault:
    mark = error.problem_mark or error.context_mark
    place = _place(mark) if mark is not None else START
    problem = str(error.problem or error.context)
    correction = _CORRECTIONS.get(problem, "")
    if error.problem_mark is not None and text[error.problem_mark.index :][:1] == "\t":
        correction = "this is a tab: indent with spaces"
    elif any(mark in _line(text, place.line) for mark in _TEMPLATES):
        correction = "render the template first, if this is one"
    return FormFault(
        (), place, f"is not YAML: {problem}" + (f"; {correction}" if correction else "")
    )


def _line(text: str, number: int) -> str:
    """One line of ``text``, counted from 1."""
    return "".join(text.split("\n")[number - 1 : number])


def _place_at(text: str, octets: int) -> Place:
    before = text.encode()[:octets].decode(errors="ignore")
    return Place(before.count("\n") + 1, len(before) - before.rfind("\n"))


def _place(mark: Any) -> Place:
    return Place(mark.line + 1, mark.column + 1)


class _Refused(Exception):
    """A limit is exceeded, or a key is not text: parsing stops here."""

    def __init__(self, place: Place, message: str) -> None:
        super().__init__(message)
        self.fault = FormFault((), place, message)


@dataclass
class _Open:
    """A list or object whose end event was not read yet."""

    value: list[Any] | dict[str, Any]
    path: Path
    anchor: str | None
    left_before: int
    key: str | None = None
    """The key whose value comes next."""
    merged: list[dict[str, Any]] = field(default_factory=list)
    height: int = 1
    """Number of levels down to the deepest value."""


class _Anchored(NamedTuple):
    """The target of an alias: its value, the number of values in it, and the number of levels."""

    value: Any
    values: int = 1
    height: int = 0


class _Builder:
    """Builds the documents of one file from YAML events."""

    def __init__(self) -> None:
        self.values_left = VALUE_LIMIT

    def read(self, events: Iterator[yaml.Event]) -> YamlDocument:
        """The next document. Consumes the events up to its end."""
        self.document = YamlDocument()
        self.open: list[_Open] = []
        self.anchors: dict[str, _Anchored] = {}
        for event in events:
            if isinstance(event, yaml.DocumentEndEvent):
                break
            place = _place(event.start_mark)
            if isinstance(event, yaml.CollectionEndEvent):
                self._close()
            elif self._awaits_key():
                self._take_key(event, place)
            else:
                self._take_value(event, place)
        return self.document

    def _awaits_key(self) -> bool:
        return (
            bool(self.open) and isinstance(self.open[-1].value, dict) and self.open[-1].key is None
        )

    def _take_key(self, event: Any, place: Place) -> None:
        parent = self.open[-1]
        self._spend(1, place)
        if not isinstance(event, yaml.ScalarEvent):
            raise _Refused(place, "a key must be text; render the template first, if this is one")
        key = str(event.value)
        path = (*parent.path, key)
        if key in parent.value and key != _MERGE:
            first = self.document.places[path].line
            self._fault(path, place, f"duplicate key; the first, at line {first}, is ignored")
        parent.key = key
        self.document.places[path] = place

    def _take_value(self, event: Any, place: Place) -> None:
        path = self._next_path()
        self.document.places.setdefault(path, place)
        if isinstance(event, yaml.AliasEvent):
            known = self._alias(event, path, place)
            self._put(known.value, known.height)
            return
        self._spend(1, place)
        if isinstance(event, yaml.ScalarEvent):
            value = self._scalar(event, path, place)
            self._put(value)
            if event.anchor:
                self.anchors[event.anchor] = _Anchored(value)
        else:
            self._begin(event, path, place)

    def _begin(self, event: Any, path: Path, place: Place) -> None:
        self._check_depth(1, place)
        value: Any = [] if isinstance(event, yaml.SequenceStartEvent) else {}
        if not (event.implicit or str(event.tag).startswith("tag:yaml.org")):
            self._fault(path, place, f"the tag {event.tag} is not supported; remove it")
        self.open.append(_Open(value, path, event.anchor, self.values_left + 1))

    def _close(self) -> None:
        done = self.open.pop()
        for merged in done.merged:
            assert isinstance(done.value, dict)
            done.value.update({k: v for k, v in merged.items() if k not in done.value})
        if done.anchor:
            values = done.left_before - self.values_left
            self.anchors[done.anchor] = _Anchored(done.value, values, done.height)
        self._put(done.value, done.height)

    def _put(self, value: Any, height: int = 0) -> None:
        if not self.open:
            self.document.value = value
            return
        parent = self.open[-1]
        parent.height = max(parent.height, height + 1)
        if isinstance(parent.value, list):
            parent.value.append(value)
        elif parent.key == _MERGE:
            parent.merged += [
                one
                for one in (value if isinstance(value, list) else [value])
                if isinstance(one, dict)
            ]
        elif parent.key is not None:
            parent.value[parent.key] = value
        parent.key = None

    def _next_path(self) -> Path:
        if not self.open:
            return ()
        parent = self.open[-1]
        last = len(parent.value) if isinstance(parent.value, list) else parent.key
        return parent.path if last is None else (*parent.path, last)

    def _alias(self, event: Any, path: Path, place: Place) -> _Anchored:
        known = self.anchors.get(event.anchor)
        if known is None:
            self._fault(
                path, place, f"the alias *{event.anchor} has no anchor &{event.anchor} above it"
            )
            return _Anchored(None)
        self._spend(known.values, place)
        self._check_depth(known.height, place)
        return known

    def _check_depth(self, more: int, place: Place) -> None:
        if len(self.open) + more > DEPTH_LIMIT:
            raise _Refused(place, f"is nested more than {DEPTH_LIMIT} levels deep")

    def _scalar(self, event: Any, path: Path, place: Place) -> Any:
        plain = event.implicit[0]
        if event.tag and not plain and not str(event.tag).startswith("tag:yaml.org"):
            self._fault(path, place, f"the tag {event.tag} is not supported; remove it")
        return scalar_value(event.value, event.tag, plain=plain)

    def _spend(self, values: int, place: Place) -> None:
        self.values_left -= values
        if self.values_left < 0:
            raise _Refused(
                place, f"more than {VALUE_LIMIT} values (an alias counts once for each use)"
            )

    def _fault(self, path: Path, place: Place, message: str) -> None:
        self.document.faults.append(FormFault(path, place, message))
