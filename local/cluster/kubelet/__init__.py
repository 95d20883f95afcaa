"""Kubelets: instances of the AWS emulator join as Nodes, and pods bound to them start and stop."""
