"""``dovetail migrate cluster-autoscaler``: node groups and flags become pools, and both sides are planned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Literal

import typer

from cli.manifests.simulate import catalogue_of, documents_of, planner_options
from cli.manifests.yaml_writing import yaml_text
from cli.migration.autoscaler_flags import Translation, parsed_flags, translated
from cli.migration.node_groups import (
    Groups,
    NodeGroup,
    node_class,
    node_pool,
    notes_of,
    read_groups,
)
from cli.printing import print_line, print_table
from cli.text import escaped, print_json
from shared.api.registry import identity
from shared.concurrency.clock import SystemClock
from shared.domain import labels as keys
from shared.errors import ConfigurationError
from shared.simulation.objects import flattened
from shared.simulation.simulate import simulate

Json = Mapping[str, Any]
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
CONTROLLERS = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "Job", "DaemonSet", "Pod"})
PLACED = frozenset(
    {"Node", "NodeClaim", "Machine", "NodePool", "EC2NodeClass", "Provisioner", "AWSNodeTemplate"}
)
"""Kinds that neither side is planned with: every pod is to be placed anew."""

FilesOption = Annotated[
    list[str],
    typer.Option(
        "--filename", "-f",
        help="Answers of the aws commands below, pods and other objects of the cluster: a file, a directory or -; "
        "repeatable.",
    ),
]  # fmt: skip
FlagsOption = Annotated[
    str,
    typer.Option(help="Flags of Cluster Autoscaler, as one text. Default: those of its Deployment in the files."),
]  # fmt: skip
ClusterOption = Annotated[str, typer.Option("--cluster-name", help="Name of the EKS cluster.")]
RoleOption = Annotated[str, typer.Option(help="IAM role of the nodes, for groups that name none.")]
OutputOption = Annotated[
    Literal["table", "json", "yaml"],
    typer.Option("--output", "-o", help="table for people, json for programs, yaml for kubectl."),
]
AnyTypeOption = Annotated[
    bool,
    typer.Option("--any-type", help="The pools may use any instance type, not only the groups'."),
]


@dataclass(frozen=True)
class Side:
    """One plan for all pods."""

    name: str
    machines: int
    hourly: float
    """US dollars, at list prices."""
    pending: int


def cluster_autoscaler(
    filename: FilesOption,
    cluster_name: ClusterOption,
    flags: FlagsOption = "",
    role: RoleOption = "KarpenterNodeRole",
    output: OutputOption = "table",
    any_type: AnyTypeOption = False,
) -> None:
    """Turn node groups and flags of Cluster Autoscaler into NodePools, and compare the cost of both.

    Each auto scaling group or managed node group becomes a NodePool and an EC2NodeClass of its name; a table says what
    each flag becomes. If the files hold pods, or controllers of pods, they are planned three times as if none ran: on
    the first type of each group, as Cluster Autoscaler does; with the pools; and with pools of any instance type.

    No cluster and no cloud is called. Exit code 1: a group cannot be read; 2: a file could not be read.

    Examples:

      aws autoscaling describe-auto-scaling-groups > groups.json

      kubectl get pods,deployments,daemonsets -A -o json > cluster.json

      dovetail migrate cluster-autoscaler --cluster-name demo -f groups.json -f cluster.json

      dovetail migrate cluster-autoscaler --cluster-name demo -f groups.json -o yaml > pools.yaml
    """
    documents = list(flattened(documents_of(filename)))
    groups = read_groups(documents)
    if groups.faults:
        raise ConfigurationError("; ".join(groups.faults))
    found = translated(parsed_flags([flags]) if flags else flags_in(documents))
    pools = manifests(groups, found, cluster_name, role, any_type=any_type)
    if output == "yaml":
        typer.echo("---\n".join(map(yaml_text, pools)), nl=False)
        return
    sides = compared(documents, groups, found, cluster_name)
    if output == "json":
        print_json(_fields(groups, found, pools, sides))
    else:
        _print(groups, found, documents, sides)


def flags_in(documents: Iterable[object]) -> dict[str, str]:
    """The flags of Cluster Autoscaler's Deployment; none without one."""
    for one in documents:
        if not isinstance(one, Mapping) or identity(one)[1] != "Deployment":
            continue
        pod = (((one.get("spec") or {}).get("template") or {}).get("spec")) or {}
        for container in pod.get("containers") or ():
            words = [*(container.get("command") or ()), *(container.get("args") or ())]
            if any(
                "cluster-autoscaler" in str(word) for word in (*words, container.get("image", ""))
            ):
                return parsed_flags(map(str, words))
    return {}


def manifests(
    groups: Groups, flags: Translation, cluster: str, role: str, *, any_type: bool
) -> list[dict[str, Any]]:
    """NodePool and EC2NodeClass of each group."""
    return [
        made
        for group in groups.found
        for made in (node_pool(group, flags, any_type=any_type), node_class(group, cluster, role))
    ]


def compared(
    documents: list[object], groups: Groups, flags: Translation, cluster: str
) -> list[Side]:
    """The plans; none when there are no pods."""
    workload = [one for one in documents if isinstance(one, Mapping) and _is_workload(one)]
    if not any(identity(one)[1] in CONTROLLERS - {"DaemonSet"} for one in workload):
        return []
    first = Groups([replace(group, types=group.types[:1]) for group in groups.found])
    plain = replace(flags, annotations={})
    sides = (
        ("Cluster Autoscaler: the first type of each group", first, plain, False),
        ("NodePools of the same types", groups, flags, False),
        ("NodePools of any type", groups, flags, True),
    )
    return [
        _side(name, workload, manifests(found, meaning, cluster, "any", any_type=any_type))
        for name, found, meaning, any_type in sides
    ]


def _side(name: str, workload: Iterable[Json], pools: list[dict[str, Any]]) -> Side:
    documents: list[object] = [*map(unplaced, workload), *pools]
    options = planner_options()
    answer = simulate(
        documents,
        catalogue=lambda: catalogue_of(documents, options.region),
        settings=options.settings,
        clock=SystemClock(),
    ).answer
    return Side(
        name, len(answer["machines"]), answer["cost"]["hourly"], len(answer["unschedulable"])
    )


def _is_workload(one: Json) -> bool:
    """Objects of the cluster; pods of DaemonSets and of nodes themselves are made by the plan."""
    if not identity(one)[1] or identity(one)[1] in PLACED:
        return False
    owners = (one.get("metadata") or {}).get("ownerReferences") or ()
    return not any(owner.get("kind") in ("DaemonSet", "Node") for owner in owners)


def unplaced(document: Json) -> Json:
    """A pod as if it waited for a node; other objects unchanged. Finished pods stay as they are."""
    status = document.get("status") or {}
    if identity(document)[1] != "Pod" or status.get("phase") in ("Succeeded", "Failed"):
        return document
    spec = {key: value for key, value in (document.get("spec") or {}).items() if key != "nodeName"}
    return {**{k: v for k, v in document.items() if k != "status"}, "spec": spec}


def kept_pods(documents: Iterable[object]) -> list[str]:
    """``namespace/name`` of what Cluster Autoscaler was not to evict."""
    found = []
    for one in documents:
        if not isinstance(one, Mapping) or identity(one)[1] not in CONTROLLERS:
            continue
        template = (
            ((one.get("spec") or {}).get("template") or {}) if identity(one)[1] != "Pod" else one
        )
        notes = ((template.get("metadata") or {}).get("annotations")) or {}
        if notes.get(SAFE_TO_EVICT) == "false":
            metadata = one.get("metadata") or {}
            found.append(
                f"{identity(one)[1]} {metadata.get('namespace', 'default')}/{metadata.get('name')}"
            )
    return found


def _fields(
    groups: Groups, flags: Translation, pools: list[dict[str, Any]], sides: list[Side]
) -> dict[str, Any]:
    return {
        "groups": [{"name": one.name, "notes": notes_of(one)} for one in groups.found],
        "flags": [asdict(row) for row in flags.rows],
        "settings": flags.settings,
        "manifests": pools,
        "plans": [asdict(side) for side in sides],
    }


def _print(groups: Groups, flags: Translation, documents: list[object], sides: list[Side]) -> None:
    rows = [_cells(vars(row).values()) for row in flags.rows]
    print_table(("flag", "value", "verdict", "becomes"), rows)
    print_table(("group", "types", "nodes", "to do"), map(_group_cells, groups.found), title="Node groups")  # fmt: skip
    if kept := kept_pods(documents):
        setting = "CLUSTER_AUTOSCALER_ANNOTATIONS=true of the scheduler"
        text = (
            f"{SAFE_TO_EVICT}=false counts with {setting}; or annotate with {keys.DO_NOT_DISRUPT}: "
        )
        print_line(escaped(f'{text}"true": {", ".join(kept[:10])} ({len(kept)})'))
    if sides:
        rows = [_cells((one.name, one.machines, f"{one.hourly:.4f}", one.pending)) for one in sides]
        print_table(("plan", "machines", "$/h", "pending"), rows, title="All pods, placed anew")
    else:
        print_line("The files hold no pods: nothing is compared.")
    print_line("-o yaml prints the pools.")


def _cells(values: Iterable[object]) -> list[str]:
    return [escaped(str(value)) for value in values]


def _group_cells(group: NodeGroup) -> list[str]:
    nodes = f"{group.least} to {group.most}"
    return _cells((group.name, " ".join(group.types), nodes, "; ".join(notes_of(group))))
