"""Metrics that follow objects: a series for each pod, and how status conditions change."""
