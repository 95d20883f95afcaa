"""Schemas of the kinds of autoscaling.x-k8s.io, which SIG Autoscaling shares between autoscalers."""
