"""The scheduler decides which Machines are created, deleted and replaced; it alone does.

In: the mirror of the cluster; the streams ``pods``, ``machines`` and ``interruptions``. Out: Machine objects,
conditions and command annotations on them, taints on nodes, events; the streams ``launches`` and ``terminations``. It
owns no state that it could not read again after a restart: intent is written to the API server before any message is
sent.
"""
