"""Transitions of status conditions, and durations of deletions (MET-11).

Objects of v1alpha5 count as their equivalents in v1: a Machine as a nodeclaim, a Provisioner as a nodepool, an
AWSNodeTemplate as an ec2nodeclass; their condition types keep their names. The gauges ``operator_status_*`` and
``operator_termination_*`` name the object and its own kind; those of one kind (``operator_node_*``) count objects.
"""

from __future__ import annotations

from shared.metrics.declaring import GAUGE, Declarations, Declared

OBSERVED = ("nodeclaim", "node", "nodepool", "ec2nodeclass")
_MINUTES = (1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 6 * 3600, 86_400)
_LABELS = ("type", "status", "reason")


def _gauge(name: str, text: str, *labels: str) -> Declared:
    return Declared(f"operator_{name}", GAUGE, f"{text}.", labels, ("watcher",))


COUNT = {
    kind: _gauge(
        f"{kind}_status_condition_count",
        "Objects with this condition, status and reason", *_LABELS,
    )
    for kind in OBSERVED
}  # fmt: skip
CURRENT_SECONDS = {
    kind: _gauge(
        f"{kind}_status_condition_current_status_seconds",
        "Longest time for which a current condition has had this status", *_LABELS,
    )
    for kind in OBSERVED
}  # fmt: skip
TERMINATING_SECONDS = {
    kind: _gauge(
        f"{kind}_termination_current_time_seconds",
        "Longest time since the request to delete an object that still exists; 0: none",
    )
    for kind in OBSERVED
}  # fmt: skip
_KIND = ("group", "kind")
OBJECT = ("namespace", "name", *_KIND)
"""Labels that name an object; the namespace is empty, because all these kinds are cluster-scoped."""
OBJECT_COUNT = _gauge(
    "status_condition_count",
    "Constant 1 for each current condition of each object", *OBJECT, *_LABELS,
)  # fmt: skip
OBJECT_SECONDS = _gauge(
    "status_condition_current_status_seconds",
    "How long a condition of an object has had its status", *OBJECT, *_LABELS,
)  # fmt: skip
OBJECT_TERMINATING = _gauge(
    "termination_current_time_seconds",
    "Time since the request to delete an object that still exists", *OBJECT,
)  # fmt: skip
CONDITIONS = (
    *(table[kind] for kind in OBSERVED for table in (COUNT, CURRENT_SECONDS, TERMINATING_SECONDS)),
    OBJECT_COUNT,
    OBJECT_SECONDS,
    OBJECT_TERMINATING,
)


class ConditionMetrics:
    """Counted by the watcher when an object changes."""

    def __init__(self, declare: Declarations) -> None:
        self.condition_transitions = {
            kind: declare.counter(
                f"operator_{kind}_status_condition_transitions_total",
                "Transitions of a condition to this status.",
                *_LABELS,
            )
            for kind in OBSERVED
        }
        self.condition_seconds = {
            kind: declare.histogram(
                f"operator_{kind}_status_condition_transition_seconds",
                "Duration of a condition's status when it changed; a missing condition counts as Unknown.",
                "type", "status",
                buckets=_MINUTES,
            )
            for kind in OBSERVED
        }  # fmt: skip
        self.deletion_seconds = {
            kind: declare.histogram(
                f"operator_{kind}_termination_duration_seconds",
                "From the request to delete an object until its deletion is complete.",
                buckets=_MINUTES,
            )
            for kind in OBSERVED
        }
        self.all_condition_transitions = declare.counter(
            "operator_status_condition_transitions_total",
            "Transitions of a condition to this status, by kind of the object.",
            *_KIND, *_LABELS,
        )  # fmt: skip
        self.all_condition_seconds = declare.histogram(
            "operator_status_condition_transition_seconds",
            "Duration of a condition's status when it changed, by kind of the object.",
            *_KIND, "type", "status",
            buckets=_MINUTES,
        )  # fmt: skip
        self.all_deletion_seconds = declare.histogram(
            "operator_termination_duration_seconds",
            "From the request to delete an object until its deletion is complete, by kind.",
            *_KIND,
            buckets=_MINUTES,
        )
