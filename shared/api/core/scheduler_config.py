"""The default topology spread constraints of kube-scheduler's configuration (SCH-85).

Two forms are accepted. kube-scheduler's own file: the plugin ``PodTopologySpread`` of the profile
``default-scheduler``, or of the only profile; other fields are ignored. Karpenter's short form: the arguments of that
plugin under ``podTopologySpread``. Text that is not YAML, a document of neither form and a constraint that
kube-scheduler would refuse raise ``InvalidObject`` with the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from shared.api.core.pods import spread_constraint
from shared.api.shapes import entries, mapping, text
from shared.domain import labels as keys
from shared.domain.workloads.pods import SpreadConstraint
from shared.errors import InvalidObject

PLUGIN = "PodTopologySpread"
SHORT = "podTopologySpread"
KIND = "KubeSchedulerConfiguration"
DEFAULT_PROFILE = "default-scheduler"
SYSTEM, LIST = "System", "List"
SYSTEM_CONSTRAINTS = (
    SpreadConstraint(3, keys.HOSTNAME, "ScheduleAnyway"),
    SpreadConstraint(5, keys.ZONE, "ScheduleAnyway"),
)
"""kube-scheduler's constraints for ``defaultingType: System``."""
Json = Mapping[str, Any]


def default_spread(document: str) -> tuple[SpreadConstraint, ...]:
    """The constraints, without selectors, because each pod brings its own. Empty for an empty document.

    Raises InvalidObject.
    """
    try:
        raw = yaml.safe_load(document)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidObject(f"is not YAML: {error}", field="SCHEDULER_CONFIG") from error
    if raw is None:
        return ()
    file = mapping(raw, "SCHEDULER_CONFIG")
    if SHORT in file:
        return _short(file)
    if file and "profiles" not in file and file.get("kind") != KIND:
        fault = f"is not a known field; write {SHORT}, or a {KIND} with profiles"
        raise InvalidObject(fault, field=min(map(str, file)))
    profiles = entries(file.get("profiles"), "profiles")
    index = _ours(profiles)
    if index is None:
        return ()
    place = f"profiles[{index}].pluginConfig"
    for number, plugin in enumerate(entries(profiles[index].get("pluginConfig"), place)):
        if plugin.get("name") == PLUGIN:
            field = f"{place}[{number}].args"
            return _constraints(mapping(plugin.get("args"), field), field)
    return ()


def _short(file: Json) -> tuple[SpreadConstraint, ...]:
    """The constraints of Karpenter's short form. Listed constraints imply ``defaultingType: List``."""
    others = sorted(str(name) for name in file if name not in (SHORT, "apiVersion", "kind"))
    if others:
        raise InvalidObject(f"cannot be combined with {SHORT}; remove one", field=others[0])
    args = mapping(file[SHORT], SHORT)
    unknown = sorted(str(n) for n in args if n not in ("defaultingType", "defaultConstraints"))
    if unknown:
        fault = "is not a known field; use defaultConstraints or defaultingType"
        raise InvalidObject(fault, field=f"{SHORT}.{unknown[0]}")
    kind = args.get("defaultingType") or (LIST if args.get("defaultConstraints") else SYSTEM)
    return _constraints({**args, "defaultingType": kind}, SHORT)


def _ours(profiles: list[Json]) -> int | None:
    """The index of the profile for pods that name no scheduler; None when several profiles exist and none is it."""
    names = [str(profile.get("schedulerName") or DEFAULT_PROFILE) for profile in profiles]
    if DEFAULT_PROFILE in names:
        return names.index(DEFAULT_PROFILE)
    return 0 if len(names) == 1 else None


def _constraints(args: Json, field: str) -> tuple[SpreadConstraint, ...]:
    kind = text(args.get("defaultingType"), f"{field}.defaultingType") or SYSTEM
    listed = entries(args.get("defaultConstraints"), f"{field}.defaultConstraints")
    if kind not in (SYSTEM, LIST):
        raise InvalidObject("must be List or System", field=f"{field}.defaultingType")
    if kind == SYSTEM:
        if listed:
            raise InvalidObject("needs defaultingType: List", field=f"{field}.defaultConstraints")
        return SYSTEM_CONSTRAINTS
    return tuple(
        _constraint(one, f"{field}.defaultConstraints[{number}]")
        for number, one in enumerate(listed)
    )


def _constraint(raw: Json, field: str) -> SpreadConstraint:
    if raw.get("labelSelector") is not None:
        fault = "is not allowed in a default constraint: each pod's own labels are used; remove it"
        raise InvalidObject(fault, field=f"{field}.labelSelector")
    return spread_constraint(raw, field)
