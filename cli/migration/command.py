"""``dovetail migrate``: move to Dovetail from another node autoscaler."""

from __future__ import annotations

from cli.migration.cluster_autoscaler import cluster_autoscaler
from cli.migration.karpenter import karpenter
from cli.options import group

migrate = group("Move to Dovetail from Karpenter or Cluster Autoscaler.")
migrate.command("karpenter")(karpenter)
migrate.command("cluster-autoscaler")(cluster_autoscaler)
