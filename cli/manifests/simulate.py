"""``dovetail simulate``: run the planner on the objects in files, without a cluster or a cloud."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal

import typer

from cli.manifests.reading import ManifestFile, read_manifests
from cli.manifests.validate import FilesOption
from cli.manifests.yaml_documents import Place
from cli.options import Output, OutputOption
from cli.text import counted, escaped, print_json
from shared.api.faults import field_text
from shared.api.registry import identity
from shared.cloud.catalogue.bundled import BUNDLED_REGION, bundled_catalogue
from shared.concurrency.clock import SystemClock
from shared.domain.instance_types.types import Catalogue
from shared.domain.snapshot import Snapshot
from shared.simulation.inputs import read_inputs
from shared.simulation.options import Options, read_options
from shared.simulation.regions import only_region
from shared.simulation.simulate import MOST_COMPARED, Simulation
from shared.simulation.simulate import simulate as plan_for
from shared.simulation.workloads import MOST_PODS

UNUSABLE = 1
UNREADABLE = 2
HEADINGS = ("MACHINE", "POOL", "TYPE", "ZONE", "CAPACITY", "$/H", "PODS", "CPU", "MEMORY")
NAMED_PODS = 3
"""Pods named per reason. Further pods are counted."""


RegionOption = Annotated[
    str | None,
    typer.Option(
        help="AWS region of the catalogue, if the inputs have no InstanceTypes. Default: the region of the "
        f"zones in the inputs, otherwise {BUNDLED_REGION}.",
        show_default=False,
    ),
]
PolicyOption = Annotated[
    Literal["FewestNodes", "LowestCost", "Balanced"],
    typer.Option(help="Packing policy of pools that do not set one."),
]
EffortOption = Annotated[
    int | None, typer.Option(help="Effort of LowestCost, in steps of about a millisecond (200).")
]
PreferenceOption = Annotated[
    Literal["Respect", "Ignore"],
    typer.Option(help="Ignore: plan as if pods had no preferences, only requirements."),
]
NodePriceOption = Annotated[
    str | None,
    typer.Option(
        help="What LowestCost and Balanced count for one more node beside its price, in US dollars per hour."
    ),
]
MinValuesOption = Annotated[
    Literal["Strict", "BestEffort"],
    typer.Option(help="BestEffort: fewer types than minValues where there are no more."),
]
ExpanderOption = Annotated[
    Literal["least-waste", "most-pods", "random"] | None,
    typer.Option(
        help="Which of several pools of the same weight is tried first; without it, by name."
    ),
]
CutoffOption = Annotated[
    int | None,
    typer.Option(help="Pods of a lower priority get no machines and are left out."),
]
CompareOption = Annotated[
    bool | None,
    typer.Option(
        "--compare/--no-compare",
        help="Also plan by the other packing policy, with all of its work. "
        f"Default: for at most {MOST_COMPARED} pods, with less.",
        show_default=False,
    ),
]
NodeCpuOption = Annotated[
    str | None,
    typer.Option(help="LowestCost plans no larger machines, such as 32, unless a pod needs one."),
]


def simulate(
    filename: FilesOption,
    output: OutputOption = "table",
    region: RegionOption = None,
    policy: PolicyOption = "FewestNodes",
    effort: EffortOption = None,
    preference_policy: PreferenceOption = "Respect",
    min_values_policy: MinValuesOption = "Strict",
    node_price: NodePriceOption = None,
    max_node_cpu: NodeCpuOption = None,
    expander: ExpanderOption = None,
    expendable_pods_priority_cutoff: CutoffOption = None,
    compare: CompareOption = None,
) -> None:
    """Show which machines Dovetail would create for the pods in these files, their cost, and why pods stay pending.

    Nothing is created, and no cluster or cloud is called. The kinds that count are Pods, Deployments and other
    controllers (as the pods that they would create), Provisioners or NodePools, AWSNodeTemplates or EC2NodeClasses,
    Nodes, Machines or NodeClaims, DaemonSets, PVs, PVCs, StorageClasses, CSINodes, a catalogue of InstanceTypes,
    NodeOverlays, CapacityBuffers, ProvisioningRequests, PodGroups, Workloads, VerticalPodAutoscalers,
    DeviceTemplates, and the kinds of dynamic resource allocation; other kinds are ignored. Pods without a node are
    pending. A node class that is not given counts as ready in every zone. Without InstanceTypes the AWS types of
    the region are used.

    An object with a fault is reported and left out, and the rest is planned. Exit code 1: no object could be used, or
    an option is wrong; 2: a file could not be read.

    Examples:

      dovetail simulate -f pods.yaml -f pools.yaml

      dovetail simulate -f cluster/ -f types.yaml --policy LowestCost -o json

      kubectl get pods,nodes,nodepools,nodeclaims -A -o yaml | dovetail simulate -f -

    An InstanceType of your own catalogue looks like this; prices are in USD per hour:

      {"apiVersion": "dovetail.sh/v1alpha1", "kind": "InstanceType", "metadata": {"name": "m5.large"}, "spec":
      {"capacity": {"cpu": 2, "memory": "8Gi", "pods": 29}, "overhead": {"cpu": "70m"}, "offerings":
      [{"zone": "us-east-1a", "capacityType": "on-demand", "price": 0.096}]}}
    """
    options = planner_options(
        region=region, policy=policy, effort=effort, preference_policy=preference_policy,
        min_values_policy=min_values_policy, node_price=node_price, max_node_cpu=max_node_cpu,
        expander=expander, expendable_pods_priority_cutoff=expendable_pods_priority_cutoff,
    )  # fmt: skip
    simulation = _plan(filename, options, compare=compare)
    _print(simulation, output)
    _require_usable(simulation)


def planner_options(**given: str | int | None) -> Options:
    """The options by the names that the planner knows; those that are None were not given.

    Raises ConfigurationError for a wrong value.
    """
    texts = {
        name.replace("_", "-"): str(value) for name, value in given.items() if value is not None
    }
    return read_options(texts)


def _plan(filename: list[str], options: Options, *, compare: bool | None) -> Simulation:
    """The plan for the objects in the files. Faults of their YAML are added to its faults."""
    files = list(read_manifests(filename))
    _require_readable(files)
    faults = [fault for file in files for fault in (*_form_faults(file), *_shape_faults(file))]
    documents = _documents(files)
    simulation = plan_for(
        documents,
        catalogue=lambda: catalogue_of(documents, options.region),
        settings=options.settings,
        clock=SystemClock(),
        compare=compare,
    )
    simulation.answer["faults"] += faults
    return simulation


def _require_usable(simulation: Simulation) -> None:
    """Exit with 1 if the planner could use no object: an empty plan is not the answer to such inputs."""
    if not simulation.usable:
        typer.echo("dovetail: no object in the inputs is used by the planner", err=True)
        raise typer.Exit(UNUSABLE)


def documents_of(filename: list[str]) -> list[object]:
    """The objects in the files. Exits with 2 if a file is unreadable, and with 1 if it is not valid YAML or all are
    empty: an answer about the rest would mislead."""
    files = list(read_manifests(filename))
    _require_readable(files)
    faults = [fault for file in files for fault in _form_faults(file)]
    for one in faults:
        field = f"{one['field']}: " if one["field"] else ""
        typer.echo(escaped(f"dovetail: {one['name']}: {field}{one['message']}"), err=True)
    documents = _documents(files)
    if not (faults or documents):
        typer.echo(escaped(f"dovetail: no object in {', '.join(filename)}"), err=True)
    if faults or not documents:
        raise typer.Exit(UNUSABLE)
    return documents


def snapshot_of(documents: list[object], catalogue: Callable[[], Catalogue]) -> Snapshot:
    """The cluster of these objects. Their faults go to standard error."""
    read = read_inputs(documents, catalogue, MOST_PODS)
    for one in read.faults:
        typer.echo(escaped(f"fault: {one.text}"), err=True)
    return read.snapshot


def _documents(files: Iterable[ManifestFile]) -> list[object]:
    return [one.document for file in files for one in file.manifests]


def catalogue_of(documents: list[object], region: str = "") -> Catalogue:
    """The instance types of the region; without one, of the region that the documents' zones are in."""
    region = region or only_region(documents) or BUNDLED_REGION
    if region == BUNDLED_REGION:
        return bundled_catalogue()
    # Imported here: it loads the AWS client, which would slow the start of every other command.
    from local.aws.catalogue.bundle import regional_catalogue

    typer.echo(f"reading the instance types of {region} from the AWS emulator ...", err=True)
    return regional_catalogue(region)


def _require_readable(files: Iterable[ManifestFile]) -> None:
    """Exit with 2 if any file is unreadable: a plan for a part of the inputs would mislead."""
    unreadable = [file for file in files if file.unreadable]
    for file in unreadable:
        typer.echo(escaped(f"dovetail: {file.source}: {file.unreadable}"), err=True)
    if unreadable:
        raise typer.Exit(UNREADABLE)


def _form_faults(file: ManifestFile) -> list[dict[str, str]]:
    """Faults of the YAML itself. ``name`` is FILE:LINE."""
    found = [(one.place, field_text(one.path), one.message) for one in file.faults]
    for manifest in file.manifests:
        base = manifest.base
        found += [
            (manifest.place_of(one.path), field_text((*base, *one.path)), one.message)
            for one in manifest.faults
        ]
    return [_fault_at(file, *one) for one in found]


def _shape_faults(file: ManifestFile) -> list[dict[str, str]]:
    """Takes documents that are no objects out of the file: the planner knows no line, and they have no name."""
    found = [(one, fault) for one in file.manifests if (fault := _shape_fault(one.document))]
    file.manifests = [one for one in file.manifests if not _shape_fault(one.document)]
    return [_fault_at(file, one.place_of(()), *fault) for one, fault in found]


def _shape_fault(document: object) -> tuple[str, str] | None:
    """(field, message). An array of JSON is a list of objects."""
    if isinstance(document, list):
        return None
    if not isinstance(document, dict):
        return "", "must be an object"
    return None if identity(document)[1] else ("kind", "is required")


def _fault_at(file: ManifestFile, place: Place, field: str, message: str) -> dict[str, str]:
    return {"kind": "", "name": f"{file.source}:{place.line}", "field": field, "message": message}


def _print(simulation: Simulation, output: Output) -> None:
    if output == "json":
        print_json(simulation.answer)
        return
    for line in table_lines(simulation.answer):
        typer.echo(escaped(line))
    for line in _notes(simulation):
        typer.echo(escaped(line), err=True)


def _notes(simulation: Simulation) -> Iterable[str]:
    ignored = simulation.ignored
    for one in simulation.answer["faults"]:
        title = "/".join(part for part in (one["kind"], one["name"]) if part) or "object"
        yield "fault: " + ": ".join(part for part in (title, one["field"], one["message"]) if part)
    if ignored:
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(ignored.items()))
        yield f"not part of planning: {kinds}"
    if simulation.static:
        names = ", ".join(simulation.static)
        yield (
            f"not planned: machines of static pools ({names}), which are as many as spec.replicas says; "
            "`dovetail plan --feature-gates StaticCapacity=true` shows them"
        )


def table_lines(answer: dict[str, Any]) -> Iterator[str]:
    """All lines, without colours. Column widths follow the content."""
    rows = [_machine_row(one) for one in answer["machines"]]
    if rows:
        yield from _aligned([HEADINGS, *rows])
    for one in answer["existing"]:
        yield f"existing {one['node']}: {counted(len(one['pods']), 'pod')}"
    for one in answer.get("kept", ()):
        yield from _kept_lines(one)
    yield from _reasons(answer["unschedulable"])
    for pool, policy in answer.get("asFewestNodes", {}).items():
        yield f"{pool}: {policy} found no cheaper machines than FewestNodes; these are its machines"
    yield from _other_policy(answer["cost"])
    yield _summary(answer)


def _kept_lines(kept: dict[str, Any]) -> Iterator[str]:
    """What a pool buys for its minimum and headroom."""
    types = ", ".join(one["offering"]["instanceType"] for one in kept["machines"])
    bought = (
        f"buys {counted(len(kept['machines']), 'machine')} ({types})" if types else "buys nothing"
    )
    short = f"short of {kept['short']}, {bought}" if kept["short"] else "has what it keeps"
    yield f"kept by {kept['nodePool']}: {short}" + (f"; {kept['reason']}" if kept["reason"] else "")


def _machine_row(machine: dict[str, Any]) -> tuple[str, ...]:
    offering, requests = machine["offering"], machine["requests"]
    return (
        machine["name"],
        machine["nodePool"],
        offering["instanceType"],
        offering["zone"],
        offering["capacityType"],
        f"{offering['price']:.4f}",
        str(len(machine["pods"])),
        requests.get("cpu", "0"),
        requests.get("memory", "0"),
    )


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def _reasons(unschedulable: list[dict[str, str]]) -> Iterator[str]:
    """One line per reason: hundreds of pods of one Deployment may have the same reason."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for one in unschedulable:
        by_reason[one["reason"]].append(one["pod"])
    for reason, pods in by_reason.items():
        more = f" and {len(pods) - NAMED_PODS} more" if len(pods) > NAMED_PODS else ""
        yield f"pending {', '.join(pods[:NAMED_PODS])}{more}: {reason}"


def _other_policy(cost: dict[str, Any]) -> Iterator[str]:
    """What the other packing policy would cost, where it places the same pods on new machines."""
    other = cost["otherPolicy"]
    if other is None or other["saves"] is None or not cost["hourly"]:
        return
    share = 100 * (other["hourly"] - cost["hourly"]) / cost["hourly"]
    machines = counted(other["machines"], "machine")
    yield f"{other['policy']} instead: {machines}, ${other['hourly']:.4f} per hour ({share:+.1f} %)"


def _summary(answer: dict[str, Any]) -> str:
    cost, stats = answer["cost"], answer["stats"]
    bound = cost["lowerBound"]
    parts = [
        counted(len(answer["machines"]), "machine"),
        f"${cost['hourly']:.4f} per hour" + ("" if bound is None else f" (at least ${bound:.4f})"),
        f"{counted(stats['pods'], 'pod')} of {counted(stats['classes'], 'kind')}",
        f"{len(answer['unschedulable'])} pending",
        f"{answer['policy']}, {stats['seconds']:.3f} s",
    ]
    return ", ".join(parts)
