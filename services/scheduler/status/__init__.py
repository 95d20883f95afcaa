"""What the status port answers: metrics of the cluster, ``/explain`` and ``/simulate``."""
