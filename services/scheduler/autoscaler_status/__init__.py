"""The ConfigMap with Cluster Autoscaler's status, for those who read it."""
