"""Reads the manifests named on the command line (files, directories, standard input) as single Kubernetes objects.

Nothing raises here. A file that is missing, too large or not text gives the reason in ``unreadable``. Invalid YAML is a
fault with its position; the documents before it are kept.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

from cli.manifests.yaml_documents import FormFault, Place, YamlDocument, read_yaml
from shared.api.conversion.v1beta1_kinds import is_v1beta1
from shared.api.faults import Fault, Path
from shared.api.parsers import SCHEMAS
from shared.api.registry import identity

FILE_LIMIT_BYTES = 16 * 1024 * 1024
FILE_COUNT_LIMIT = 10_000
SUFFIXES = (".yaml", ".yml", ".json")
STANDARD_INPUT = "-"
LIST = "List"


@dataclass(frozen=True)
class Manifest:
    """One object and its position. ``base`` is its path inside its YAML document, such as an item of a List."""

    source: str
    document: Any
    yaml: YamlDocument
    base: Path = ()

    def place_of(self, path: Path) -> Place:
        """The position of a field of the object, or of its nearest existing parent."""
        return self.yaml.place_of((*self.base, *path))

    @property
    def faults(self) -> list[Fault]:
        """Faults of its YAML, such as duplicate keys. Paths are relative to the object."""
        length = len(self.base)
        inside = [one for one in self.yaml.faults if one.path[:length] == self.base]
        return [Fault(one.path[length:], one.message) for one in inside]


@dataclass
class ManifestFile:
    """The manifests and faults of one file."""

    source: str
    manifests: list[Manifest] = field(default_factory=list)
    faults: list[FormFault] = field(default_factory=list)
    """Faults of its YAML outside any object, such as a syntax error."""
    unreadable: str = ""
    """The reason why the file could not be read; empty when it was read."""


def read_manifests(names: Iterable[str]) -> Iterator[ManifestFile]:
    """The files in the order given; the files of a directory sorted by name."""
    for name in names:
        if name == STANDARD_INPUT:
            yield _read("stdin", None)
            continue
        if not name:  # of an unset shell variable; a path would take it for the current directory
            yield ManifestFile("-f", unreadable="the name of a file or directory is empty")
            continue
        hidden: list[OSError] = []
        files = _files(File(name), hidden.append)
        for error in hidden:
            yield ManifestFile(str(error.filename), unreadable=error.strerror or str(error))
        if not files and not hidden:
            yield ManifestFile(
                name, unreadable=f"contains no {', '.join(f'*{one}' for one in SUFFIXES)} file"
            )
        if len(files) > FILE_COUNT_LIMIT:
            yield ManifestFile(
                name,
                unreadable=f"more than {FILE_COUNT_LIMIT} manifest files; name a smaller directory",
            )
        for file in files[:FILE_COUNT_LIMIT]:
            yield _read(str(file), file)


def _read(source: str, path: File | None) -> ManifestFile:
    try:
        octets = _octets(path)
        if len(octets) > FILE_LIMIT_BYTES:
            return ManifestFile(
                source, unreadable=f"larger than {FILE_LIMIT_BYTES // 1024 // 1024} MiB"
            )
        return parse_manifests(source, octets.decode("utf-8-sig"))
    except OSError as error:
        return ManifestFile(source, unreadable=error.strerror or str(error))
    except UnicodeDecodeError as error:
        return ManifestFile(source, unreadable=f"not UTF-8 text (byte {error.start})")


def _octets(path: File | None) -> bytes:
    """The beginning of a file, or of the standard input. One octet beyond the limit shows that there is more."""
    if path is not None:
        with path.open("rb") as stream:
            return stream.read(FILE_LIMIT_BYTES + 1)
    if sys.stdin is None:  # closed by the shell: <&-
        raise OSError("standard input is closed")
    return sys.stdin.buffer.read(FILE_LIMIT_BYTES + 1)


def parse_manifests(source: str, text: str) -> ManifestFile:
    """The documents in ``text``. A List, one of our kinds alone, or a JSON array gives its items; empty documents are
    left out."""
    documents, broken = read_yaml(text)
    file = ManifestFile(source, faults=[broken] if broken is not None else [])
    for document in documents:
        value = document.value
        if isinstance(value, dict) and (implied := _kind_of_items(value)) is not None:
            _read_list(document, implied, file)
        elif isinstance(value, list) and all(
            isinstance(one, dict) and "kind" in one for one in value
        ):
            file.manifests += [
                Manifest(source, one, document, (at,)) for at, one in enumerate(value)
            ]
        elif value is not None:
            file.manifests.append(Manifest(source, value, document))
    return file


def _kind_of_items(value: dict[str, Any]) -> dict[str, str] | None:
    """``apiVersion`` and ``kind`` that the items of a list need not have; None for an object that is no list."""
    version, kind = identity(value)
    if kind == LIST:
        return {}
    implied = {"apiVersion": version, "kind": kind.removesuffix(LIST)}
    is_list = kind.endswith(LIST) and "items" in value
    return implied if is_list and (identity(implied) in SCHEMAS or is_v1beta1(implied)) else None


def _read_list(document: YamlDocument, implied: dict[str, str], file: ManifestFile) -> None:
    """Add the items of a List. An item that is no object is a fault here: nobody can say more about it."""

    def fault(path: Path, message: str) -> None:
        file.faults.append(FormFault(path, document.place_of(path), message))

    file.faults += [one for one in document.faults if len(one.path) < len(("items", 0))]
    items = document.value.get("items")
    items = [] if items is None else items  # as a program in Go writes an empty list
    if not isinstance(items, list):
        fault(("items",), "must be a list of objects")
        return
    for index, item in enumerate(items):
        path = ("items", index)
        if isinstance(item, dict):
            file.manifests.append(Manifest(file.source, {**implied, **item}, document, path))
        else:
            fault(path, "must be an object")


def _files(name: File, on_error: Callable[[OSError], None]) -> list[File]:
    """The manifest files of a directory, or the file itself. Calls ``on_error`` for each unreadable directory."""
    if not name.is_dir():
        return [name]
    found: list[File] = []
    for directory, below, files in os.walk(name, onerror=on_error):
        below.sort()
        paths = (File(directory, one) for one in sorted(files) if one.endswith(SUFFIXES))
        found += [path for path in paths if path.is_file()]
        if len(found) > FILE_COUNT_LIMIT:
            break
    return found
