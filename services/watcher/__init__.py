"""The watcher: the only service that watches the API server. It writes the mirror and informs the others of changes.

In: watches of every kind in ``conversion.KINDS``. Out: the mirror in Redis with its stream ``cluster``; the messages
``PodUnschedulable`` (pods), ``LaunchMachine`` (launches), ``TerminateMachine`` (terminations), ``NodeJoined``,
``NodeClassChanged`` and ``NodePoolChanged`` (machines); the status of pools and node classes. It owns: the mirror, the
hash annotations, and inline node templates. It decides nothing and deletes no machine.

    watch -> mirror.intake -> mirror.journal -> Redis, messages
                           -> status, metrics
"""
