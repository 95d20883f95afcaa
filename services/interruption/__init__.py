"""The interruption service: what EC2 announces about instances -> Machines deleted, or their nodes closed, in time.

In: the SQS queue that EventBridge fills, EC2's status checks and scheduled events; the watcher's mirror.
Out: deletions and annotations of Machines, taints of nodes, events, webhook posts, unavailable offerings, and the
messages ``TerminateMachine`` (terminations), ``InterruptionReceived`` (interruptions) and ``DrainNode`` (terminations).
It owns: the SQS messages until they are deleted, the taints of ``notices.notice``, and lifecycle hooks of auto scaling
groups while they wait (``self_managed_nodes``). It keeps nothing else: whatever it decides it could decide again.

    sources -> notices.backlog -> actions.worker -> actions.machine_actions -> actions.notifier, actions.webhook
"""
