"""The controllers of kube-controller-manager that node scaling can observe, small and in-process."""
