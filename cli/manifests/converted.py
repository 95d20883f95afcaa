"""Checks converted objects before ``dovetail convert`` prints them.

Two checks apply: those of ``dovetail validate``, and the kind's CRD with its CEL rules, as in an API server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cli.manifests.reading import Manifest
from cli.manifests.validate import Finding
from local.cluster.crd.custom_resources import CustomKind
from shared.api.conversion.written import Written
from shared.api.crd.definitions import custom_resource_definition
from shared.api.faults import Fault, field_text
from shared.api.registry import KINDS, check, identity, is_ours, title_of


def refusals(written: Iterable[Written], sources: Sequence[Manifest]) -> list[Finding]:
    """The reasons why an API server would refuse these objects, at the line of the source manifest.

    ``sources``: the manifests that were converted, in the order in which they were given.
    """
    return [
        _finding(one, sources[one.source], fault)
        for one in written
        if one.document and is_ours(one.document)
        for fault in _faults(one)
    ]


def _faults(written: Written) -> Iterator[tuple[str, str]]:
    """(field, message). The note of a conversion about the field is appended: it names the correction."""
    notes = {field_text(note.path): note.message for note in written.notes}
    faults = check(written.document)
    if faults:
        yield from (_with_note(fault, notes) for fault in faults)
        return
    model = KINDS[identity(written.document)]
    version = CustomKind(custom_resource_definition(model)).version_of(written.document)
    for error in version.validator.errors(written.document):
        yield error.field, error.message


def _with_note(fault: Fault, notes: dict[str, str]) -> tuple[str, str]:
    where = field_text(fault.path)
    return where, f"{fault.message}; {notes[where]}" if where in notes else fault.message


def _finding(written: Written, source: Manifest, fault: tuple[str, str]) -> Finding:
    where, message = fault
    return Finding(
        source.source, source.place_of(()), f"as {title_of(written.document)}", where, message
    )
