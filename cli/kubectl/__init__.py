"""``kubectl dovetail``: the commands against the cluster of a kubeconfig, through its API server."""
