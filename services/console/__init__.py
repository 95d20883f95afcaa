"""The console: a page that shows the cluster live, what was decided and why. It changes nothing.

In: the watcher's mirror, the streams in Redis, the ``/status`` of the other services, and reads of events and Leases.
Out: JSON, server-sent events and the page in ``page/``, on the status port. It owns: the changes of the last hour,
in memory. Several replicas may run; each has an hour of its own.

    mirror -> picture -> feed (live changes, history) -> status.routes -> page
                         reports (details, decisions, cost, queues, health) -^
"""
