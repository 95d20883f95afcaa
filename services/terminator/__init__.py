"""The terminator: takes away Machines and nodes that carry a deletion timestamp, with pods, volumes and instance.

In: messages of the stream ``terminations`` (``TerminateMachine``, ``DrainNode``, ``EndInstance``), and everything that
a periodic resync finds by itself. Out: evictions, terminated instances, finalizers taken off, conditions and events,
and ``MachineTerminated`` (machines). It owns: the finalizer on Machines and nodes, the taint or cordon of a draining
node, and the only right in AWS to terminate instances.

    queue -> termination -> drain -> instances
          -> drain.lifecycle_hooks (nodes that no pool owns)
          -> orphaned_instances (instances that no Machine owns)
    repair -> queue
"""
