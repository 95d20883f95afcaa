"""``dovetail plan``: what changed manifests would do to a cluster. Reads, and changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import typer

from cli.decisions.plan.cluster import Catalogues, Held, read_cluster
from cli.decisions.plan.comparison import Effect, effect_between, effect_of
from cli.decisions.plan.document import document_of
from cli.decisions.plan.recorded_cluster import is_moment, recorded_cluster, with_pools
from cli.decisions.plan.rendering import markdown_lines, table_lines
from cli.decisions.plan.rules import Rules, Timing
from cli.decisions.plan.thresholds import exceeded, read_thresholds
from cli.decisions.plan.workloads import WORKLOADS
from cli.decisions.recorded import ClusterOption, StoreOption
from cli.manifests.reading import ManifestFile, read_manifests
from cli.manifests.simulate import (
    EffortOption,
    NodeCpuOption,
    NodePriceOption,
    PolicyOption,
    RegionOption,
    planner_options,
)
from cli.manifests.validate import FilesOption
from cli.stack.environment import StackOption, variables_of
from cli.text import escaped, print_json
from local.stack import DEFAULT_DIRECTORY
from shared.api.faults import field_text
from shared.concurrency.clock import SystemClock
from shared.domain.feature_gates import parse_feature_gates
from shared.errors import ConfigurationError
from shared.simulation.inputs import Inputs
from shared.simulation.ledgers.pricing import Source

NOTHING, FAULT, CHANGES = 0, 1, 2
LIVE = "live"
MOST_ASSUMED_SECONDS = 24 * 3600.0

AgainstOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Files or directories with the objects of the cluster, or - for standard input; live (default): the "
        "cluster of the stack in --directory, or of KUBECONFIG; a time such as 2026-11-25T10:42:00Z, or 2h for two "
        "hours ago: the recorded cluster.",
        show_default=False,
    ),
]
ReportOption = Annotated[
    Literal["table", "json", "markdown"],
    typer.Option("--output", "-o", help="markdown: for a review comment."),
]
FailOption = Annotated[
    str,
    typer.Option(
        help="Exit with 1 if any of these is exceeded: cost>+5%, cost>0.50, unschedulable>0, disrupted>20%, "
        "disrupted>3, staying>0; separated by commas."
    ),
]
ConsolidationOption = Annotated[
    Literal["auto", "Karpenter", "Global"],
    typer.Option(help="As the scheduler's CONSOLIDATION."),
]
GatesOption = Annotated[str, typer.Option(help="As the scheduler's FEATURE_GATES.")]
JoinOption = Annotated[
    float,
    typer.Option(
        min=0, max=MOST_ASSUMED_SECONDS, help="Assumed seconds from launch to ready node."
    ),
]
DrainOption = Annotated[
    float,
    typer.Option(min=0, max=MOST_ASSUMED_SECONDS, help="Assumed seconds that a drain takes."),
]


def plan(
    filename: FilesOption,
    against: AgainstOption = None,
    output: ReportOption = "table",
    fail_on: FailOption = "",
    region: RegionOption = None,
    policy: PolicyOption = "FewestNodes",
    consolidation: ConsolidationOption = "auto",
    feature_gates: GatesOption = "",
    effort: EffortOption = None,
    node_price: NodePriceOption = None,
    max_node_cpu: NodeCpuOption = None,
    join_seconds: JoinOption = 60.0,
    drain_seconds: DrainOption = 30.0,
    store: StoreOption = "",
    cluster: ClusterOption = "",
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Show what these manifests would do to the cluster, before they are applied.

    Which machines would drift or be consolidated and why, what replaces them, how long the disruption budgets make it
    take, the cost before and after, and pods that would have no place any more. Nothing is changed. The cluster is
    planned twice, with the manifests and without, by the scheduler's own rules in simulated time: what happens anyway
    is marked. Manifests are NodePools, node classes and their older kinds, and workloads; kinds that planning does not
    use have no effect. Against a recorded cluster only pools can be planned.

    Exit code 0: nothing would happen; 2: something would, or may; 1: a fault, a wrong option, or --fail-on is exceeded.

    Examples:

      dovetail plan -f changes/

      dovetail plan -f pool.yaml --against cluster.yaml -o markdown --fail-on 'cost>+5%,unschedulable>0'

      dovetail plan -f pool.yaml --against 24h

      kubectl get pods,nodes,nodepools,nodeclaims,ec2nodeclasses,pdb -A -o yaml | dovetail plan -f pool.yaml --against -
    """
    thresholds = read_thresholds(fail_on)
    options = planner_options(
        region=region,
        policy=policy,
        effort=effort,
        node_price=node_price,
        max_node_cpu=max_node_cpu,
    )
    manifests = _manifests(filename)
    rules = Rules(options.settings, consolidation, _gates(feature_gates))
    timing, clock = Timing(join_seconds, drain_seconds), SystemClock()
    if against and is_moment(against):
        place = {"store": store, "cluster": cluster}
        source = recorded_cluster(against[0], clock, directory=directory, **place)
        effect = _recorded_effect(source, manifests, rules, timing)
    else:
        held = _held(against or [LIVE], manifests, lambda: variables_of(directory))
        effect = effect_of(
            held.documents,
            manifests,
            catalogue=Catalogues(held, options.region),
            rules=rules,
            timing=timing,
            now=clock.now(),
            unavailable=held.unavailable,
        )
    _require_no_faults(effect)
    _print(effect, output)
    over = exceeded(thresholds, effect)
    for line in over:
        typer.echo(f"dovetail: exceeded: {line}", err=True)
    raise typer.Exit(FAULT if over else NOTHING if effect.is_empty else CHANGES)


def _recorded_effect(source: Source, manifests: list[Any], rules: Rules, timing: Timing) -> Effect:
    changed, after = with_pools(source.snapshot, manifests)
    before = Inputs(source.snapshot)
    return effect_between(before, changed, after, rules=rules, timing=timing, now=source.now)


def _held(against: list[str], manifests: list[Any], variables: Any) -> Held:
    if against != [LIVE]:
        return Held(_documents(against))
    kinds = {str(one.get("kind")) for one in manifests if isinstance(one, Mapping)}
    return asyncio.run(read_cluster(variables(), frozenset(kinds & set(WORKLOADS))))


def _gates(text: str) -> Any:
    try:
        return parse_feature_gates(text)
    except ValueError as error:
        raise ConfigurationError(f"--feature-gates: {error}") from error


def _manifests(names: list[str]) -> list[Any]:
    """The objects in the files. Exits with 1 as ``_documents``, and if there is none: a check in CI must not pass
    because a template renders nothing."""
    found = _documents(names)
    if not found:
        typer.echo(escaped(f"dovetail: no object in {', '.join(names)}"), err=True)
        raise typer.Exit(FAULT)
    return found


def _documents(names: list[str]) -> list[Any]:
    """The objects in the files. Exits with 1 for a file that cannot be read and for faults of YAML."""
    files = list(read_manifests(names))
    problems = [line for file in files for line in _problems(file)]
    for line in problems:
        typer.echo(escaped(f"dovetail: {line}"), err=True)
    if problems:
        raise typer.Exit(FAULT)
    return [one.document for file in files for one in file.manifests]


def _problems(file: ManifestFile) -> list[str]:
    if file.unreadable:
        return [f"{file.source}: {file.unreadable}"]
    found = [(fault.place, field_text(fault.path), fault.message) for fault in file.faults]
    found += [
        (manifest.place_of(fault.path), field_text((*manifest.base, *fault.path)), fault.message)
        for manifest in file.manifests
        for fault in manifest.faults
    ]
    return [
        ": ".join(part for part in (f"{file.source}:{place.line}", field, message) if part)
        for place, field, message in found
    ]


def _require_no_faults(effect: Effect) -> None:
    for one in effect.cluster_faults:
        typer.echo(escaped(f"left out of the cluster: {one.text}"), err=True)
    for one in effect.faults:
        typer.echo(escaped(f"dovetail: {one.text}"), err=True)
    if effect.faults:
        raise typer.Exit(FAULT)


def _print(effect: Effect, output: str) -> None:
    answer = document_of(effect)
    if output == "json":
        print_json(answer)
        return
    for line in (markdown_lines if output == "markdown" else table_lines)(answer):
        typer.echo(escaped(line))
