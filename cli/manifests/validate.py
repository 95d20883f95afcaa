"""``dovetail validate``: check manifests without a cluster, and print every fault with its line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import typer

from cli.manifests.kubelet_expressions import expression_faults, expression_notes
from cli.manifests.reading import Manifest, ManifestFile, read_manifests
from cli.manifests.yaml_documents import Place
from cli.text import counted, escaped, print_json
from shared.api.faults import Fault, field_text
from shared.api.registry import check, is_ours, title_of, warnings

FilesOption = Annotated[
    list[str],
    typer.Option(
        "--filename", "-f",
        help="A file, a directory (read recursively) or - for standard input; repeatable.",
    ),
]  # fmt: skip
UNREADABLE = 2
FAULTY = 1


@dataclass(frozen=True)
class Finding:
    """One fault or warning, with its position."""

    source: str
    place: Place
    title: str
    """For example ``NodePool/default``; empty for a fault of the file."""
    field: str
    message: str

    def text(self, word: str = "") -> str:
        """``FILE:LINE:COL: KIND/name: field: message``, with control characters escaped."""
        parts = (word, self.title, self.field, self.message)
        where = f"{self.source}:{self.place.line}:{self.place.column}"
        return escaped(": ".join((where, *filter(None, parts))))

    def fields(self) -> dict[str, Any]:
        """The finding as JSON fields."""
        return {
            "file": self.source,
            "line": self.place.line,
            "column": self.place.column,
            "object": self.title,
            "field": self.field,
            "message": self.message,
        }


@dataclass
class Report:
    """The findings in all files."""

    checked: int = 0
    ignored: Counter[str] = field(default_factory=Counter)
    """Number of documents of other kinds, by kind."""
    faults: list[Finding] = field(default_factory=list)
    warnings: list[Finding] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    def require_document(self) -> None:
        """Inputs without any document count as unreadable: the first command of a pipe may have failed."""
        if not (self.checked or self.ignored or self.faults or self.unreadable):
            self.unreadable.append(
                "the inputs have no document; did the command fail that was to write them?"
            )

    def exit_code(self) -> int:
        """2: a file could not be read, or no document is there; 1: at least one fault; 0: neither."""
        return UNREADABLE if self.unreadable else FAULTY if self.faults else 0

    def summary(self) -> str:
        """The counts as one line of text."""
        parts = [
            f"{counted(self.checked, 'object')} checked",
            counted(len(self.faults), "fault"),
            counted(len(self.warnings), "warning"),
        ]
        if self.ignored:
            kinds = ", ".join(f"{kind} {number}" for kind, number in sorted(self.ignored.items()))
            parts.append(f"{counted(self.ignored.total(), 'other document')} ignored ({kinds})")
        return ", ".join(parts)


def validate(
    filename: FilesOption,
    output: Annotated[
        Literal["text", "json"],
        typer.Option("--output", "-o", help="json prints one object for programs."),
    ] = "text",
) -> None:
    """Check manifests of every API generation without a cluster, and print every fault with its line.

    The checked kinds are Provisioner, AWSNodeTemplate, Machine, NodePool, EC2NodeClass, NodeClaim, NodeOverlay,
    CapacityBuffer, ProvisioningRequest, DeviceTemplate and the ConfigMap karpenter-global-settings; NodePool,
    EC2NodeClass and NodeClaim also of v1beta1. The checks cover structure, rules over several fields, unknown fields,
    names and duplicate keys. Documents of other kinds are ignored and counted. Exit code 1: at least one fault; 2: a
    file could not be read, or there is no document.

    Examples:

      dovetail validate -f pools.yaml

      dovetail validate -f clusters/ -f extra.json -o json

      helm template chart | dovetail validate -f -

    A fault looks like this:

      pools.yaml:12:9: NodePool/default: spec.weight: must be at most 100
    """
    report = examine(read_manifests(filename))
    report.require_document()
    if output == "json":
        print_json(_fields(report))
    else:
        print_report(report)
        typer.echo(escaped(report.summary()))
    if code := report.exit_code():
        raise typer.Exit(code)


def print_report(report: Report) -> None:
    """Print one line per finding, in the order of the files; unreadable files go to stderr."""
    for finding in report.faults:
        typer.echo(finding.text())
    for finding in report.warnings:
        typer.echo(finding.text("warning"))
    for line in report.unreadable:
        typer.echo(escaped(f"dovetail: {line}"), err=True)


def examine(files: Iterable[ManifestFile], *, all_yaml: bool = False) -> Report:
    """Check every object of the files. ``all_yaml``: and the YAML of documents of other kinds."""
    report = Report()
    for file in files:
        if file.unreadable:
            report.unreadable.append(f"{file.source}: {file.unreadable}")
        for manifest in file.manifests:
            _examine(manifest, report)
            if all_yaml and not is_ours(manifest.document):
                report.faults += _findings(manifest, manifest.faults)
        report.faults += [
            Finding(file.source, one.place, "", field_text(one.path), one.message)
            for one in file.faults
        ]
    return report


def _examine(manifest: Manifest, report: Report) -> None:
    document = manifest.document
    if not is_ours(document):
        report.ignored[_kind_of(document)] += 1
        return
    report.checked += 1
    form = manifest.faults
    faults = check(document) or expression_faults(document)
    report.faults += _findings(manifest, [*form, *faults])
    if not faults:
        notes = [*warnings(document), *expression_notes(document)]
        report.warnings += _findings(manifest, notes)


def _findings(manifest: Manifest, faults: Iterable[Fault]) -> list[Finding]:
    title = title_of(manifest.document)
    found = [
        Finding(manifest.source, manifest.place_of(f.path), title, field_text(f.path), f.message)
        for f in faults
    ]
    return sorted(found, key=lambda finding: finding.place)


def _kind_of(document: object) -> str:
    kind = document.get("kind") if isinstance(document, dict) else None
    return kind[:80] if isinstance(kind, str) and kind else "without kind"


def _fields(report: Report) -> dict[str, Any]:
    return {
        "checked": report.checked,
        "ignored": dict(report.ignored),
        "faults": [finding.fields() for finding in report.faults],
        "warnings": [finding.fields() for finding in report.warnings],
        "unreadable": report.unreadable,
    }
