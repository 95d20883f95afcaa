"""Faults in the streams, the mirror, the watches and the Leases."""

from __future__ import annotations

from simulation.mutants.mutant import Mutant

BUS = "shared/redis/bus"
MIRROR = "shared/redis/mirror"

MESSAGING = (
    Mutant(
        "failed-message-acknowledged",
        f"{BUS}/attempt.py",
        "        if delivery.deliveries < self.limits.deliveries:\n            return False",
        "        if delivery.deliveries < self.limits.deliveries:\n            return True",
        "a message whose handler failed is acknowledged",
        "refusals",
        missing="A handler fails: the API server refuses for longer than its client tries "
        "again, just when a node joins.",
    ),
    Mutant(
        "retry-not-stored",
        f"{BUS}/attempt.py",
        "            await self.delay.put(again, seconds)",
        "            pass",
        "a message that asked for a retry is acknowledged and forgotten",
        "no-answers",
    ),
    Mutant(
        "acknowledged-before-the-effect",
        f"{BUS}/attempt.py",
        "                    await self.handler(envelope)\n",
        "                    return True\n",
        "a message is acknowledged and never handled",
        "quiet",
    ),
    Mutant(
        "trim-ignores-pending",
        f"{BUS}/trim.py",
        "    if pending[1] > 0 then candidate = pending[2] end",
        "    if false then candidate = pending[2] end",
        "a stream is trimmed above entries that are not acknowledged",
        "limits",
        missing="A launcher dies with messages in its hands, and later ones are handled before "
        "the stream is trimmed.",
    ),
    Mutant(
        "group-not-created-again",
        f"{BUS}/group.py",
        '            command = ("XGROUP", "CREATE", self.stream_key, self.group, "0", "MKSTREAM")',
        '            command = ("XGROUP", "CREATE", self.stream_key, self.group, "$", "MKSTREAM")',
        "a group that is created again skips what is on the stream already",
        "redis",
        missing="A message is published between the loss of Redis' data and the return of the "
        "consumer.",
    ),
    Mutant(
        "entries-never-acknowledged",
        f"{BUS}/group.py",
        '            await call(self.commands, "acknowledge", "XACK", self.stream_key, self.group, *ids)',
        "            pass",
        "handled entries stay pending and are handled again",
        "quiet",
    ),
    Mutant(
        "dead-consumers-keep-entries",
        f"{BUS}/consumer.py",
        "        await self._take(ids, tasks)\n        self._next_reap",
        "        self._next_reap",
        "nobody takes over the entries of a consumer that died",
        "limits",
    ),
    Mutant(
        "lost-mirror-not-rewritten",
        "services/watcher/mirror/journal.py",
        '                log.warning("mirror lost, writing it anew")\n                self.begun = False',
        '                log.warning("mirror lost, writing it anew")',
        "a mirror that Redis forgot is not written again",
        "redis",
        harmless="The heartbeat, two seconds later at most, finds the loss as well and has the "
        "mirror written anew.",
    ),
    Mutant(
        "unwritten-changes-forgotten",
        "services/watcher/mirror/journal.py",
        "            self._put_back(batch)\n            raise",
        "            raise",
        "changes that Redis refused are not written later",
        "redis",
    ),
    Mutant(
        "deletions-not-mirrored",
        "services/watcher/mirror/journal.py",
        "        self._change(kind.name, kind.key_of(gone.key), None, gone.version)",
        "        pass",
        "deleted objects stay in the mirror",
        "quiet",
    ),
    Mutant(
        "watch-ends-after-an-error",
        "shared/kube/informer.py",
        '                await self._pause("cannot list or watch, listing again", error)',
        "                await asyncio.Event().wait()",
        "a watch that failed once is never opened again",
        "api",
    ),
    Mutant(
        "expired-position-kept",
        "shared/kube/watching.py",
        '    if status.get("reason") in ("Expired", "Gone"):',
        '    if status.get("reason") == "Gone":',
        "a watch whose position expired is resumed at that position",
        "api",
        harmless="The event has the code 410 too, and an error with that code lists again.",
    ),
    Mutant(
        "deletions-missed-by-a-list",
        "shared/kube/informer.py",
        "        for key in [key for key in self._known if key not in seen]:",
        "        for key in ():",
        "objects that were deleted while the watch was broken are kept",
        "mixed",
    ),
    Mutant(
        "gone-looked-at-after-parsing",
        "shared/kube/watching.py",
        '    if kind == "ERROR":',
        '    if kind == "ERROR" and body.get("metadata"):',
        "the report that a position expired is taken for an object",
        "api",
    ),
    Mutant(
        "lease-held-without-end",
        "shared/kube/lease.py",
        "        return self.clock.monotonic() < self._held_until",
        "        return self.acquired.is_set()",
        "a process that was stopped longer than its Lease still believes that it leads",
        "leaders",
        missing="The leader is stopped, and another replica has taken over when it continues.",
    ),
    Mutant(
        "lease-taken-early",
        "shared/kube/lease.py",
        "        return self.clock.monotonic() - self._seen_at >= self.times.duration",
        "        return True",
        "a Lease is taken from a holder that is alive",
        "two-replicas",
    ),
    Mutant(
        "epoch-does-not-grow",
        "shared/kube/lease.py",
        "        epoch = self._highest_epoch + (record.holder != self.identity)",
        "        epoch = max(self._highest_epoch, 0)",
        "two leaders in succession have the same epoch",
        "two-replicas",
    ),
    Mutant(
        "failed-loop-not-restarted",
        "shared/runtime/services.py",
        "        metrics.loop_failures.labels(loop.name).inc()",
        "        await stop.wait()\n        metrics.loop_failures.labels(loop.name).inc()",
        "a loop that raised is never started again",
        "api",
    ),
    Mutant(
        "readiness-ignores-silence",
        "shared/runtime/services.py",
        "        if now - last > self.late_seconds:",
        "        if now - last > 1e9:",
        "a service whose loop makes no progress is ready",
        "loops",
    ),
)
