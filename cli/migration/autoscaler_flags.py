"""What each flag of Cluster Autoscaler becomes: pure.

A flag that is not given has Cluster Autoscaler's default, and those that decide when nodes go have a counterpart here
with another default. They are therefore written out.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from shared.domain import labels as keys
from shared.domain.durations import go_duration_seconds

DEFAULTS = {"scale-down-unneeded-time": "10m", "max-node-provision-time": "15m"}
"""Flags that are translated although nobody gave them."""
EXPANDERS = ("least-waste", "most-pods", "random", "priority")
PROGRAM = "cluster-autoscaler"
_SHELL = re.compile(r"[0-9]?[<>]|[|;&]")
"""The beginning of a word with which a shell ends or redirects a command."""
DELAYS_LOCAL = "scale-down-delay-type-local"
STATUS_NAME = "cluster-autoscaler-status"
TRUE = frozenset({"", "true", "1", "t"})
NOT_NEEDED = {
    "cloud-provider": "Dovetail is for AWS",
    "node-group-auto-discovery": "NodePools take the place of groups",
    "nodes": "NodePools take the place of groups",
    "scale-down-gpu-utilization-threshold": "a node goes when its pods fit elsewhere for less money",
    "ignore-daemonsets-utilization": "pods of DaemonSets never keep a node",
    "scan-interval": "changes are watched",
    "cordon-node-before-terminating": "always done",
    "namespace": "set by the manifests in deploy/",
    "v": "LOG_LEVEL=debug shows more",
    "logtostderr": "logs are written to standard output",
    "stderrthreshold": "LOG_LEVEL",
    "leader-elect": "always on; DISABLE_LEADER_ELECTION switches it off",
}
SKIPPED = {
    "skip-nodes-with-system-pods": "pods of kube-system",
    "skip-nodes-with-local-storage": "pods with emptyDir or hostPath",
    "skip-nodes-with-custom-controller-pods": "pods of other controllers",
}
SETTINGS_OF_SKIPPED = {
    "skip-nodes-with-system-pods": "SKIP_NODES_WITH_SYSTEM_PODS",
    "skip-nodes-with-local-storage": "SKIP_NODES_WITH_LOCAL_STORAGE",
}


@dataclass(frozen=True)
class FlagRow:
    """One flag, and what it becomes."""

    flag: str
    value: str
    verdict: str
    """``kept``, ``by hand`` or ``not needed``."""
    text: str


@dataclass
class Translation:
    """What the flags mean for all pools and for the services."""

    rows: list[FlagRow] = field(default_factory=list)
    disruption: dict[str, object] = field(default_factory=dict)
    """Fields of ``spec.disruption``."""
    budgets: list[dict[str, object]] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)
    """Of every NodePool."""
    template: dict[str, object] = field(default_factory=dict)
    """Fields of ``spec.template.spec``."""
    settings: dict[str, str] = field(default_factory=dict)
    """Environment variables of the services."""
    delays_local: bool = False
    """Whether the delays of scale-down are those of each pool."""


def parsed_flags(words: Iterable[str]) -> dict[str, str]:
    """Flag -> value, of a container's command and arguments or of one line; a flag without a value is "".

    A flag that is repeated keeps its last value. Other words are left out, and what a shell does before and after.
    """
    listed = _arguments([part for word in words for part in _split(word)])
    found: dict[str, str] = {}
    for at, word in enumerate(listed):
        if not word.startswith("-") or word.strip("-") == "":
            continue
        name, equals, value = word.lstrip("-").partition("=")
        follows = listed[at + 1] if at + 1 < len(listed) else "-"
        found[name] = value if equals or follows.startswith("-") else follows
    return found


def _arguments(words: list[str]) -> list[str]:
    """The words after the program's name, where it is given, up to a pipe or redirection of a shell."""
    end = next((at for at, word in enumerate(words) if _SHELL.match(word)), len(words))
    for at, word in enumerate(words[:end]):
        follows_flag = at > 0 and words[at - 1].startswith("--")
        if word.rpartition("/")[2] == PROGRAM and not follows_flag:
            return words[at + 1 : end]
    return words[:end]


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # an open quote: the words as they are
        return text.split()


def translated(flags: Mapping[str, str]) -> Translation:
    """The meaning of all flags. Never raises; what cannot be read is to be done by hand."""
    local = flags.get(DELAYS_LOCAL, "false").lower() in TRUE
    found = Translation(delays_local=local)
    for name, value in sorted({**DEFAULTS, **flags}.items()):
        shown = value if name in flags else f"{value} (default)"
        if name in _RULES:
            verdict, text = _RULES[name](value, found)
        elif name in SKIPPED:
            verdict, text = _skipping(name, value, found)
        elif name in NOT_NEEDED:
            verdict, text = "not needed", NOT_NEEDED[name]
        else:
            verdict, text = "by hand", "no counterpart is known"
        found.rows.append(FlagRow(f"--{name}", shown, verdict, text))
    if found.disruption.get("consolidateAfter") == "Never":
        found.budgets.clear()
    return found


_Rule = Callable[[str, Translation], tuple[str, str]]


def written_duration(value: str) -> str:
    """Whole seconds in Kubernetes' notation; empty for another text."""
    seconds = go_duration_seconds(value)
    return f"{round(seconds)}s" if seconds is not None else ""


def _unneeded(value: str, found: Translation) -> tuple[str, str]:
    after = written_duration(value)
    if not after:
        return "by hand", f"{value!r} is not a duration such as 10m"
    found.disruption.setdefault("consolidateAfter", after)
    return "kept", f"spec.disruption.consolidateAfter: {found.disruption['consolidateAfter']}"


def _enabled(value: str, found: Translation) -> tuple[str, str]:
    if value.lower() in TRUE:
        return "not needed", "consolidation is on"
    found.disruption["consolidateAfter"] = "Never"
    return "kept", "spec.disruption.consolidateAfter: Never"


def _provision(value: str, found: Translation) -> tuple[str, str]:
    after = written_duration(value)
    if not after:
        return "by hand", f"{value!r} is not a duration such as 15m"
    found.settings["REGISTRATION_TIMEOUT"] = after
    return "kept", f"REGISTRATION_TIMEOUT={after} of the launcher"


def _delay(after_what: str, annotation: str) -> _Rule:
    def rule(value: str, found: Translation) -> tuple[str, str]:
        after, variable = written_duration(value), f"SCALE_DOWN_DELAY_AFTER_{after_what}"
        if not after:
            return "by hand", f"{value!r} is not a duration such as 10m"
        if found.delays_local:
            found.annotations[annotation] = after
            return "kept", f"annotation {annotation}: {after} on the pools"
        found.settings[variable] = after
        return "kept", f"{variable}={after} of the scheduler"

    return rule


def _local(_: str, found: Translation) -> tuple[str, str]:
    whose = "annotations of the pools" if found.delays_local else "settings of the scheduler"
    return "kept", f"the delays are {whose}"


def _expander(value: str, found: Translation) -> tuple[str, str]:
    first = value.partition(",")[0]
    if first == "price":
        found.annotations[keys.PACKING_ANNOTATION] = "LowestCost"
        return "kept", f"annotation {keys.PACKING_ANNOTATION}: LowestCost on the pools"
    if first not in EXPANDERS:
        return "not needed", "the cheapest types that hold the pods are chosen"
    found.settings["EXPANDER"] = first
    if first == "priority":
        return "by hand", "EXPANDER=priority; EXPANDER_PRIORITIES: the ConfigMap's priorities"
    return "kept", f"EXPANDER={first} of the scheduler"


def _status(value: str, found: Translation) -> tuple[str, str]:
    if value.lower() not in TRUE:
        return "kept", "no status ConfigMap is written"
    return _named_status(STATUS_NAME, found)


def _named_status(value: str, found: Translation) -> tuple[str, str]:
    found.settings["STATUS_CONFIG_MAP"] = f"kube-system/{value}"
    return (
        "kept",
        f"STATUS_CONFIG_MAP=kube-system/{value} of the scheduler (chart: statusConfigMap)",
    )


def _balance(value: str, _: Translation) -> tuple[str, str]:
    if value.lower() not in TRUE:
        return "not needed", "zones are chosen by price and capacity"
    return "by hand", "zones are balanced for pods that ask for it: topologySpreadConstraints"


def _skipping(name: str, value: str, found: Translation) -> tuple[str, str]:
    if value.lower() not in TRUE:
        return "kept", f"{SKIPPED[name]} do not keep a node"
    if name in SETTINGS_OF_SKIPPED:
        variable = SETTINGS_OF_SKIPPED[name]
        found.settings[variable] = "true"
        return "kept", f"{variable}=true of the scheduler: {SKIPPED[name]} keep their node"
    return (
        "by hand",
        f"annotate {SKIPPED[name]} that must keep their node with {keys.DO_NOT_DISRUPT}",
    )


def _grace(value: str, found: Translation) -> tuple[str, str]:
    if not value.isdigit():
        return "by hand", f"{value!r} is not a number of seconds"
    found.template["terminationGracePeriod"] = f"{value}s"
    return "kept", f"spec.template.spec.terminationGracePeriod: {value}s"


def _budget(*reasons: str) -> _Rule:
    def rule(value: str, found: Translation) -> tuple[str, str]:
        if not value.isdigit():
            return "by hand", f"{value!r} is not a number"
        limited: dict[str, object] = {"reasons": list(reasons)} if reasons else {}
        found.budgets.append({"nodes": value, **limited})
        return "kept", f"a budget of {value} nodes" + (
            f" for {', '.join(reasons)}" if reasons else ""
        )

    return rule


def _setting(variable: str, where: str) -> _Rule:
    def rule(value: str, found: Translation) -> tuple[str, str]:
        found.settings[variable] = value
        return "kept", f"{variable}={value} of the {where}"

    return rule


def _total(resource: str) -> _Rule:
    def rule(value: str, _: Translation) -> tuple[str, str]:
        most = value.partition(":")[2] or value
        return "by hand", f"divide {most} among spec.limits.{resource} of the pools"

    return rule


def _repair(value: str, found: Translation) -> tuple[str, str]:
    found.settings["FEATURE_GATES"] = "NodeRepair=true"
    return (
        "kept",
        "FEATURE_GATES=NodeRepair=true of the terminator replaces nodes that stay unready",
    )


_RULES: dict[str, _Rule] = {
    "scale-down-enabled": _enabled,
    "scale-down-unneeded-time": _unneeded,
    "scale-down-delay-after-add": _delay("ADD", keys.DELAY_AFTER_ADD_ANNOTATION),
    "scale-down-delay-after-delete": _delay("DELETE", keys.DELAY_AFTER_DELETE_ANNOTATION),
    "scale-down-delay-after-failure": _delay("FAILURE", keys.DELAY_AFTER_FAILURE_ANNOTATION),
    DELAYS_LOCAL: _local,
    "scale-down-utilization-threshold": _setting("SCALE_DOWN_UTILIZATION_THRESHOLD", "scheduler"),
    "expendable-pods-priority-cutoff": _setting("EXPENDABLE_PODS_PRIORITY_CUTOFF", "scheduler"),
    "scale-down-unready-time": _repair,
    "max-node-provision-time": _provision,
    "expander": _expander,
    "write-status-configmap": _status,
    "status-config-map-name": _named_status,
    "balance-similar-node-groups": _balance,
    "max-graceful-termination-sec": _grace,
    "max-empty-bulk-delete": _budget("Empty"),
    "max-scale-down-parallelism": _budget(),
    "max-nodes-total": _setting("MAX_NODES", "launcher"),
    "new-pod-scale-up-delay": _setting("BATCH_IDLE_DURATION", "scheduler"),
    "cores-total": _total("cpu"),
    "memory-total": _total("memory"),
}
