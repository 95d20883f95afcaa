"""Devices that the pods of daemon sets take on new machines (DRA-08).

Each such pod has a claim of its own, made from a template. On instance types without such devices kube-scheduler never
binds the pod, so it takes nothing there at all. A claim with a name is one for all pods of a daemon set, which only one
node can serve: it counts nowhere.

What may go wrong: a claim cannot be understood, or nothing has its devices. Then the daemon set counts without devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from shared.domain.devices.counting import Columns
from shared.domain.devices.demands import Alternative, Claims
from shared.domain.devices.matching import Shape, places
from shared.domain.nodes import DaemonDevices, DaemonSet
from shared.domain.workloads.pods import Pod
from shared.errors import InvalidObject

Ways = tuple[Alternative, ...]


def asked_by(daemon_sets: Iterable[DaemonSet], claims: Claims) -> dict[str, Ways]:
    """UID of a daemon set -> what one of its pods needs, the preferred alternative first."""
    found = {}
    for daemon in daemon_sets:
        made = tuple(one for one in daemon.device_claims if one.template)
        if not made:
            continue
        pod = Pod(daemon.uid, daemon.namespace, daemon.name, device_claims=made)
        try:
            found[daemon.uid] = claims.alternatives(pod, settled=True, without=frozenset())
        except InvalidObject:
            continue
    return found


def taken_by(
    ways: Ways, types: Mapping[str, int], shapes: Sequence[Shape], columns: Columns
) -> tuple[DaemonDevices, ...]:
    """What one pod takes of the columns, by instance type. ``types``: name -> index of its shape.

    Of several alternatives the first that the type can meet counts, as for kube-scheduler.
    """
    by_shape = {at: _taken(ways, shapes[at], columns) for at in sorted(set(types.values()))}
    names: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for name, at in sorted(types.items()):
        taken = by_shape[at]
        if taken is not None:
            names.setdefault(tuple(sorted(taken.items())), []).append(name)
    return tuple(DaemonDevices(tuple(there), dict(taken)) for taken, there in names.items())


def _taken(ways: Ways, shape: Shape, columns: Columns) -> dict[str, int] | None:
    """None where the pod's claims cannot be met."""
    for way in ways:
        if places(way, shape):
            return columns.demand(way, shape)
    return None
