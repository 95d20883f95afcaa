"""Dashboards, alerts and recording rules. ``python -m deploy.observability`` writes the dashboards from plain data."""
