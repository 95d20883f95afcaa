"""The controllers of kube-controller-manager whose effects node scaling observes, in small in-process versions."""
