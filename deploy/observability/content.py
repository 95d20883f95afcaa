"""All dashboards."""

from __future__ import annotations

from deploy.observability.interruption import INTERRUPTION
from deploy.observability.overview import OVERVIEW
from deploy.observability.scheduling import SCHEDULING

DASHBOARDS = (OVERVIEW, SCHEDULING, INTERRUPTION)
