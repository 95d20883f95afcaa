"""Grafana dashboards from plain data: rows of panels, each with its queries.

A dashboard names no data source: whoever opens it chooses one in the variable ``datasource``. Panels are two or three
in a row, and stand in the order in which they are written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent / "dashboards"
SCHEMA_VERSION = 41
COLUMNS, HEIGHT = 24, 8
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
Json = dict[str, Any]


class Query(NamedTuple):
    """One line, or one line per series. ``legend``: in Grafana's words, with labels in braces."""

    expression: str
    legend: str = ""


class Panel(NamedTuple):
    """``kind``: Grafana's panel type. ``unit``: Grafana's name of a unit. ``help``: what to read from it."""

    title: str
    queries: tuple[Query, ...]
    unit: str = "short"
    kind: str = "timeseries"
    help: str = ""
    stacked: bool = False


class Row(NamedTuple):
    title: str
    panels: tuple[Panel, ...]


class Dashboard(NamedTuple):
    """``pools``: whether the reader can choose pools."""

    uid: str
    title: str
    rows: tuple[Row, ...]
    pools: bool = False


def documents(dashboards: Sequence[Dashboard]) -> dict[str, str]:
    """File name -> text of every dashboard."""
    return {
        f"{one.uid.removeprefix('dovetail-')}.json": json.dumps(document_of(one), indent=1) + "\n"
        for one in dashboards
    }


def document_of(dashboard: Dashboard) -> Json:
    """The dashboard as Grafana imports it."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "tags": ["dovetail"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": _variables(dashboard)},
        "links": [_link()],
        "annotations": {"list": []},
        "panels": list(_panels(dashboard.rows)),
    }


def _variables(dashboard: Dashboard) -> list[Json]:
    datasource = {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
    }
    if not dashboard.pools:
        return [datasource]
    pools = {
        "name": "nodepool",
        "label": "Pool",
        "type": "query",
        "datasource": DATASOURCE,
        "query": "label_values(karpenter_nodepools_usage, nodepool)",
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
    }
    return [datasource, pools]


def _link() -> Json:
    """To the other dashboards, with the same data source and time."""
    return {
        "type": "dashboards",
        "tags": ["dovetail"],
        "title": "Dovetail",
        "asDropdown": False,
        "includeVars": True,
        "keepTime": True,
    }


def _panels(rows: Sequence[Row]) -> Iterator[Json]:
    number, top = 0, 0
    for row in rows:
        number += 1
        at = {"x": 0, "y": top, "w": COLUMNS, "h": 1}
        yield {"id": number, "type": "row", "title": row.title, "gridPos": at, "panels": []}
        top += 1
        width = COLUMNS // min(3, len(row.panels))
        for index, panel in enumerate(row.panels):
            number += 1
            column, line = index % 3, index // 3
            place = {"x": column * width, "y": top + line * HEIGHT, "w": width, "h": HEIGHT}
            yield _panel(number, panel, place)
        top += -(-len(row.panels) // 3) * HEIGHT


def _panel(number: int, panel: Panel, place: Json) -> Json:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.help,
        "datasource": DATASOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, **_style(panel)}, "overrides": []},
        "options": _options(panel),
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": DATASOURCE,
                "expr": query.expression,
                "legendFormat": query.legend or "__auto",
                "instant": panel.kind == "stat",
                "range": panel.kind != "stat",
            }
            for index, query in enumerate(panel.queries)
        ],
    }


def _style(panel: Panel) -> Json:
    if panel.kind != "timeseries":
        return {}
    mode = "normal" if panel.stacked else "none"
    fill = 30 if panel.stacked else 5
    return {"min": 0, "custom": {"fillOpacity": fill, "stacking": {"mode": mode, "group": "A"}}}


def _options(panel: Panel) -> Json:
    if panel.kind == "timeseries":
        legend = {"displayMode": "list", "placement": "bottom", "showLegend": True}
        return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
    return {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}}
