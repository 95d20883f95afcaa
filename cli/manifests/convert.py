"""``dovetail convert``: convert manifests to the other API generation and print them as YAML.

Before anything is printed the result is checked by the rules of ``dovetail validate``, and by the kind's CRD with its
CEL rules, as in an API server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Annotated, Literal

import typer

from cli.manifests.reading import Manifest, ManifestFile, read_manifests
from cli.manifests.validate import FAULTY, FilesOption, Finding, Report, examine, print_report
from cli.manifests.yaml_writing import yaml_text
from cli.text import counted, escaped
from local.cluster.crd.custom_resources import CustomKind
from shared.api.conversion import convert as generations
from shared.api.conversion.written import Written
from shared.api.crd.definitions import custom_resource_definition
from shared.api.faults import Fault, field_text
from shared.api.parsers import schema_of
from shared.api.registry import check, identity, is_ours, title_of
from shared.api.schema.kinds import Resource

GenerationOption = Annotated[
    Literal["v1", "v1alpha5"], typer.Option("--to", help="The API generation to convert to.")
]
RoleOption = Annotated[
    str, typer.Option(help="With --to v1: IAM role of the nodes, for classes that name none.")
]
ProfileOption = Annotated[
    str,
    typer.Option(help="With --to v1: instance profile of the nodes, for classes that name none."),
]


def convert(
    filename: FilesOption,
    to: GenerationOption,
    role: RoleOption = "",
    instance_profile: ProfileOption = "",
) -> None:
    """Convert manifests to the other API generation. Comments mark what has no counterpart there.

    v1alpha5: Provisioner and AWSNodeTemplate; v1: NodePool and EC2NodeClass. Give pools and classes that belong
    together in one call: kubelet settings move between pool and class. Objects of v1beta1 become those of v1, for which
    NodeClaims are converted too. Objects of the target generation and of other
    kinds are printed unchanged. v1 has no default instance profile: give --role or --instance-profile, or include the
    ConfigMap karpenter-global-settings. If the input or the result has a fault, only the faults are printed, in the
    format of `dovetail validate`; the exit code is 1, or 2 when there is no document.

    Examples:

      dovetail convert -f pools.yaml -f classes.yaml --to v1 --role my-node-role > v1.yaml

      kubectl get provisioners,awsnodetemplates -o yaml | dovetail convert -f - --to v1

    A comment names what is left to do by hand:

      # spec.launchTemplate: v1 has no launch templates of your own; ...
    """
    manifests = _faultless(list(read_manifests(filename)))
    nodes = _node_identity(role, instance_profile)
    written = generations.convert([one.document for one in manifests], to, nodes)
    _require_acceptable(written, manifests)
    _print(written)


def _faultless(files: list[ManifestFile]) -> list[Manifest]:
    """The objects in the files. If there is a fault, prints the faults and exits with the code of ``validate``."""
    report = examine(files, all_yaml=True)
    report.require_document()
    if code := report.exit_code():
        print_report(report)
        raise typer.Exit(code)
    return [one for file in files for one in file.manifests if isinstance(one.document, dict)]


def _node_identity(role: str, instance_profile: str) -> generations.NodeIdentity:
    if role and instance_profile:
        raise typer.BadParameter("give --role or --instance-profile, not both")
    return generations.NodeIdentity(role, instance_profile)


def _require_acceptable(written: Iterable[Written], sources: Sequence[Manifest]) -> None:
    """Print the reasons why an API server would refuse the result, and exit with 1 if there are any."""
    if findings := refusals(written, sources):
        print_report(Report(faults=findings))
        raise typer.Exit(FAULTY)


def _print(written: Sequence[Written]) -> None:
    typer.echo(text_of(written), nl=False)
    # On stderr, because standard output is often redirected to a file that is applied unread.
    if notes := sum(len(one.notes) for one in written):
        them = "it" if notes == 1 else "them"
        typer.echo(
            f"the output has {counted(notes, 'comment')}; read {them} before you apply it", err=True
        )


def refusals(written: Iterable[Written], sources: Sequence[Manifest]) -> list[Finding]:
    """The reasons why an API server would refuse these objects, at the line of the source manifest.

    ``sources``: the manifests that were converted, in the order in which they were given.
    """
    return [
        Finding(source.source, source.place_of(()), f"as {title_of(one.document)}", *fault)
        for one in written
        if one.document and is_ours(one.document)
        for source in (sources[one.source],)
        for fault in _faults(one)
    ]


def _faults(written: Written) -> Iterator[tuple[str, str]]:
    """(field, message). The note of a conversion about the field is appended: it names the correction."""
    notes = {field_text(note.path): note.message for note in written.notes}
    faults = check(written.document)
    if faults:
        yield from (_with_note(fault, notes) for fault in faults)
        return
    model = schema_of(identity(written.document))
    if model is None:  # the ConfigMap of settings: the API server has no schema of ours for it
        return
    version = _served(model).version_of(written.document)
    for error in version.validator.errors(written.document):
        yield error.field, error.message


@cache
def _served(model: type[Resource]) -> CustomKind:
    """The kind as an API server has it. To make one takes some 40 ms, so it is not made for each object."""
    return CustomKind(custom_resource_definition(model))


def _with_note(fault: Fault, notes: dict[str, str]) -> tuple[str, str]:
    """Notes about a selector that has no equivalent are about the terms that it was made of."""
    where = field_text(fault.path)
    said = [notes[at] for at in (where, f"{where}Terms") if at in notes]
    return where, "; ".join(dict.fromkeys((fault.message, *said)))


def text_of(written: Iterable[Written]) -> str:
    """All documents as YAML, each below its comments."""
    return "---\n".join(_document_text(one) for one in written)


def _document_text(written: Written) -> str:
    comments = "".join(f"# {_comment(note)}\n" for note in written.notes)
    return comments + (yaml_text(written.document) if written.document else "")


def _comment(note: Fault) -> str:
    """The note on one line: a line break in a value would end the comment."""
    return escaped(str(note) if field_text(note.path) else note.message)
