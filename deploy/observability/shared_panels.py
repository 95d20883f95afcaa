"""Panels that more than one dashboard shows, and what makes the usual queries."""

from __future__ import annotations

from deploy.observability.panels import Panel, Query

RATE = "[$__rate_interval]"
POOL = '{nodepool=~"$nodepool"}'


def stat(
    title: str, expression: str, *, unit: str = "short", legend: str = "", help: str = ""
) -> Panel:
    """The last value."""
    return Panel(title, (Query(expression, legend),), unit, "stat", help)


def rate(metric: str, by: str, labels: str = "") -> Query:
    """Events per second of a counter, one line for each value of ``by``."""
    legend = " ".join(f"{{{{{label}}}}}" for label in by.split(", "))
    return Query(f"sum by ({by}) (rate({metric}{labels}{RATE}))", legend)


def quantiles(metric: str, labels: str = "") -> tuple[Query, ...]:
    """Median and 99th percentile of a histogram."""
    return tuple(
        Query(
            f"histogram_quantile({share}, sum by (le) (rate({metric}_bucket{labels}{RATE})))", name
        )
        for share, name in ((0.5, "median"), (0.99, "99 %"))
    )


def summary(metric: str, labels: str = "") -> tuple[Query, ...]:
    """Median and 99th percentile of a summary, over all its series."""
    inner = f", {labels}" if labels else ""
    return tuple(
        Query(f'max({metric}{{quantile="{share}"{inner}}})', name)
        for share, name in (("0.5", "median"), ("0.99", "99 %"))
    )


READY = Panel(
    "Services ready",
    (Query("max by (service) (dovetail_ready)", "{{service}}"),),
    help="1: at least one replica can work. At 0 its /readyz says why not: dovetail status",
)
LEADERS = Panel(
    "Replicas that lead",
    (Query("sum by (name) (leader_election_master_status)", "{{name}}"),),
    help="Watcher and scheduler have one leader each. 0: nothing is watched or planned.",
)
QUEUES = Panel(
    "Messages not yet acknowledged",
    (Query("max by (name) (workqueue_depth)", "{{name}}"),),
)
DEAD = Panel(
    "Dead letters",
    (Query("max by (stream) (dovetail_dead_letters)", "{{stream}}"),),
    help="Messages that no service could handle: dovetail dead-letters list",
)
COST = Panel(
    "Cost of the pools per hour",
    (Query("sum by (nodepool) (karpenter_nodepools_cost_total)", "{{nodepool}}"),),
    "currencyUSD",
    stacked=True,
    help="List or spot price of each machine; machines of unknown price are left out.",
)
FAILED_LAUNCHES = Panel(
    "Failed launches by EC2's error code",
    (rate("karpenter_cloudprovider_instance_launch_failures_total", "reason"),),
    "cps",
)
UNSCHEDULABLE = Panel(
    "Pods that the last plan could not place",
    (
        Query(
            "max by (controller) (karpenter_scheduler_unschedulable_pods_count)", "{{controller}}"
        ),
    ),
    help="dovetail explain pod shows why, and the smallest change that would place it.",
)
DRAINS = Panel(
    "Running drains",
    (Query("max by (node) (dovetail_drain_seconds)", "{{node}}"),),
    "s",
    help="A drain that takes very long is blocked: dovetail explain node",
)
