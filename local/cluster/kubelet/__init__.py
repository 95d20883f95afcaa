"""Kubelets: instances of the AWS emulator join as Nodes, pods bound to them start and stop."""
