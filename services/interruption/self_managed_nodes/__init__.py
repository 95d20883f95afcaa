"""Nodes that no pool owns: lifecycle hooks of auto scaling groups, and the agent that reads its instance's metadata.

This is the work of the AWS Node Termination Handler. All of it is behind the setting ``SELF_MANAGED_NODES``, which is
on by default; within it ``LIFECYCLE_HOOKS`` (off) and ``--source imds`` choose. Only ``service.py`` knows of
this folder: it wires it.
"""
