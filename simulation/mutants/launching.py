"""Faults in planning, launching and the life of machines until they run pods."""

from __future__ import annotations

from simulation.mutants.mutant import Mutant

LAUNCH = "services/launcher/launch"
LIFECYCLE = "services/launcher/lifecycle"
PROVISIONING = "services/scheduler/provisioning"

LAUNCHING = (
    Mutant(
        "record-after-the-call",
        f"{LAUNCH}/saga.py",
        "        record, fresh = await self.records.write(record_of(ready, epoch, now))",
        "        record, fresh = record_of(ready, epoch, now), True",
        "CreateFleet is called without a LaunchRecord",
        "crashes",
    ),
    Mutant(
        "record-dropped-without-an-answer",
        f"{LAUNCH}/saga.py",
        '            await self._report(_waiting(record, machines), "LaunchFailed", error.message)\n'
        "            return retry(record.uids)",
        '            await self._report(_waiting(record, machines), "LaunchFailed", error.message)\n'
        "            answers = await self._next_attempt(record, _waiting(record, machines))\n"
        "            await self._close(record)\n"
        "            return answers",
        "a call without an answer is repeated with another client token",
        "no-answers",
    ),
    Mutant(
        "one-empty-list-believed",
        f"{LAUNCH}/saga.py",
        "        if left and not certain and since_first_list < ALL_LISTED_SECONDS:",
        "        if False:",
        "one list without instances proves that a call started none",
        "late-lists",
        quiet_seconds=1200.0,
        missing="An answer is lost, the repeat is forbidden, and EC2 does not list the instance "
        "yet.",
    ),
    Mutant(
        "dead-instance-adopted",
        f"{LAUNCH}/saga.py",
        "        alive = [instance for instance in found if instance.state in LIVE_STATES]",
        "        alive = list(found)",
        "a terminated instance is assigned to a machine",
        "lost-launches",
        missing="An answer is lost, and the instance ends before the call is repeated.",
    ),
    Mutant(
        "record-never-dropped",
        f"{LAUNCH}/saga.py",
        "        await self.records.drop(record.token)\n        self._listed.pop(record.token, None)",
        "        self._listed.pop(record.token, None)",
        "LaunchRecords of finished launches stay",
        "quiet",
    ),
    Mutant(
        "turn-not-taken",
        f"{LAUNCH}/record_store.py",
        "        first = await self.is_first(record)",
        "        first = True",
        "two launchers send records of the same machine",
        "rivals",
        missing="Two launchers hold one machine in different groups while their queues wait for "
        "EC2.",
    ),
    Mutant(
        "second-instance-replaces-the-first",
        f"{LAUNCH}/results.py",
        '            return stored.uid != machine.uid or stored.provider_id not in (\n                "",\n'
        "                instance.provider_id,\n            )",
        "            return False",
        "a machine that has an instance gets another one",
        "overtaken-launches",
        minutes=5.0,
        missing="A launcher gets its answer when another one has taken over, seen that the "
        "instances ended, and bought again.",
    ),
    Mutant(
        "stopped-instance-ended",
        f"{LAUNCH}/assignment.py",
        "        ended={uid for uid, state in known.items() if state not in LIVE_STATES},",
        "        ended={uid for uid, state in known.items() if state not in LIVE_STATES - STOPPED_STATES},",
        "an instance that somebody stopped counts as ended",
        "stopped-launches",
        missing="An answer is lost, and somebody stops the instance before the call is repeated.",
    ),
    Mutant(
        "launches-in-flight-not-counted",
        f"{LAUNCH}/limits.py",
        "            if uid not in known:\n                self._take(one)",
        "            if False:\n                self._take(one)",
        "a pool's limits do not count launches that are under way",
        "no-answers",
        missing="A call is under way for a type beside which the next machine has no room, and "
        "EC2 chooses it.",
    ),
    Mutant(
        "limits-not-checked",
        f"{LAUNCH}/limits.py",
        "            if all(_amount(choice.type.capacity, name) <= left for name, left in room.items())",
        "            if all(left is not None for name, left in room.items())",
        "the launcher buys beyond a pool's limits",
        "limits",
        missing="A limit is tightened two seconds or more before a machine is launched that was "
        "made before.",
    ),
    Mutant(
        "boot-taint-stays",
        f"{LIFECYCLE}/stages.py",
        "    kept = [t for t in node.taints if t.key != keys.UNREGISTERED_TAINT_KEY]",
        "    kept = list(node.taints)",
        "registered nodes keep the taint that keeps pods away",
        "quiet",
    ),
    Mutant(
        "node-without-finalizer",
        f"{LIFECYCLE}/steps.py",
        '                "finalizers": sorted({*fresh.finalizers, keys.FINALIZER}),',
        '                "finalizers": sorted(fresh.finalizers),',
        "a deleted node goes at once, before it is drained",
        "drains",
    ),
    Mutant(
        "never-too-late",
        f"{LIFECYCLE}/steps.py",
        "        if reason is None or (late and not seen_joining):\n            return False",
        "        return False",
        "machines whose node never joins stay for ever",
        "joining",
        quiet_seconds=1200.0,
        missing="An instance never joins, and the run waits for the quarter of an hour that a "
        "node has.",
    ),
    Mutant(
        "stale-mirror-planned",
        "shared/redis/mirror/trust.py",
        "    if age > max_age:",
        "    if age > 1e9:",
        "the scheduler plans with an old mirror",
        "old-mirror",
        minutes=5.0,
        missing="The watcher stands still for a minute, and a machine is bought or taken in the "
        "minute after that.",
    ),
    Mutant(
        "created-machines-forgotten",
        "services/scheduler/actions.py",
        "        self.view.assume(stored)\n",
        "",
        "a machine counts only when the mirror shows it, so pods get two",
        "stale",
    ),
    Mutant(
        "need-not-proven",
        f"{PROVISIONING}/creation.py",
        "            if not await self._is_needed(planned, pods, waiting):",
        "            if False:",
        "machines are bought for pods that are gone",
        "stale",
    ),
    Mutant(
        "fence-not-checked",
        "services/scheduler/actions.py",
        "        if not self.leadership.held:",
        "        if False:",
        "a scheduler that lost its Lease while it planned writes its machines",
        "leaders",
        missing="The leader is stopped between the decision and the write of one of several "
        "machines.",
    ),
    Mutant(
        "promised-pods-overlooked",
        f"{PROVISIONING}/limit_waiters.py",
        "    needed = {pod.node_name for pod in snapshot.pods} | {",
        "    needed = {",
        "a machine that its own pods wait for is withdrawn, and another ordered",
        "late-lists",
    ),
    Mutant(
        "unplaced-pods-not-tried-again",
        f"{PROVISIONING}/planner.py",
        "        self.trigger_waiting()\n        view = self.cluster.view",
        "        view = self.cluster.view",
        "a pod that no plan placed is not planned for again",
        "limits",
        missing="Pods wait for room that comes when nothing else happens any more that makes "
        "the scheduler plan.",
    ),
)
