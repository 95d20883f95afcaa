"""Persistent volumes: the nodes that reach them, their provisioning, binding and attachment."""
