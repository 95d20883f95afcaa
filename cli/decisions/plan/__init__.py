"""``dovetail plan``: what changed manifests would do to the machines of a cluster, before they are applied."""
