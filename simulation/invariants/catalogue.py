"""Everything that must hold in every run, in one list.

Safety: never wrong, checked after each event.

- One instance per machine. However often a launch is repeated, interrupted or answered with nothing, the calls for a
  machine start one live instance.
- Intent first. No instance starts whose launch is not written down, and no machine changes its instance.
- Living instances. No machine gets an instance that had ended when the launcher looked.
- Limits. No launch takes a pool above a limit that held when it was decided.
- Bought once. Machines are made for pods that need a place, and never twice for the same pods.
- Wanted by pools. A static pool gets no more machines than it says, and a closed pool none.
- Fenced launches. What a scheduler wrote after another one had taken over is never launched.
- Proof. An instance is ended for a deleted machine or node, or when nobody owned it for a minute; never for a machine
  that stays.
- Health. No service deletes a machine whose node is ready and whose instance runs; only the scheduler decides to. None
  deletes one as garbage whose instance is too new for EC2's lists.
- Finalizers. A machine and its node outlive their instance and its launch.
- Replacements. The scheduler deletes a machine for a stored command whose replacements were ready.
- Budgets of pools. A command never disrupts more machines at once than the budgets of the pool allow.
- Rates of pools. Nor more within an hour than the rate of the pool says.
- Undisturbed pods. No command takes a machine with a pod that must stay.
- Ordered to stay. Machines are not withdrawn before their launch only for others to be ordered, again and again.
- Budgets of pods. No pod goes against a PodDisruptionBudget before the deadline of its machine.
- Drains. An instance is ended after its pods have left, or at the deadline of its machine. Its node stays until then.
- One leader per epoch. A Lease is taken when it is free or expired, and no epoch has two holders.
- One leader. Of the replicas of a service one says that it leads, and a scheduler that was followed makes no machine.
- Whole commands. What a scheduler had begun and not written to the end is rolled back by the next one.
- Fresh mirror. Nothing is bought or disrupted by a mirror that nobody has written for a minute.
- Promptness. Without faults a machine is launched and drained at once, and not by the next listing. A call whose answer
  was lost is repeated soon.
- Notices. When EC2 ends a spot instance as announced, its machine is being deleted.
- Nothing fails unseen. No task, callback or process ends with an exception that nobody handles.
- Nothing fails unforeseen. What a loop or a handler fails with is one of a few kinds of errors, and no log is flooded.
- Honest readiness. A process that is cut off from Redis or the API server is not ready.
- Honest loops. A failed loop is started again, and a service with a loop that ended or stands still is not ready.
- No message is dropped. An entry leaves its stream when every group has acknowledged it, and a new group reads all.
- Failures come again. A message whose handling failed is not acknowledged before it was handled once more.
- Effects once. Messages may come twice; one instance per machine, bought once, and replaced first stand for that.
- Bounded queues. Streams, dead letters, put-off messages and keys in Redis stay below their limits.

Liveness: true in the end, when faults have stopped.

- Nothing leaked. Each live instance has one machine, and each launched machine one live instance.
- Nodes and machines belong together.
- Launched machines become ready or go.
- Nodes that stay are open for pods.
- Launch records end.
- Deletions end, unless a pod is held by a person's wish, and the terminator works on nothing else.
- Pods that plainly fit somewhere run.
- Machines that nobody needs go.
- Static pools have their replicas.
- Reserved machines are in a reservation.
- The mirror equals the API server.
- Every message is settled: read, acknowledged and not put off. The queue of notices is empty.
- Streams are trimmed.
- Tasks, maps, sets, lists and queues of a process are bounded.
- Every process is ready.
"""

from __future__ import annotations

from simulation.invariants.deletions import (
    ProvenDeletions,
    ProvenTerminations,
    ReleasedLast,
    ReplacedFirst,
)
from simulation.invariants.delivery import (
    EveryMessageIsSettled,
    FailuresComeAgain,
    GroupsReadEverything,
    NoMessageIsDropped,
    QueuesAreBounded,
    StreamsAreTrimmed,
)
from simulation.invariants.disruption import UndisturbedPods, WithinBudgets, WithinRate
from simulation.invariants.disturbances import Disturbances
from simulation.invariants.evictions import DrainedFirst, PodBudgets
from simulation.invariants.failures import EveryFailureIsForeseen
from simulation.invariants.kinds import Liveness, Safety
from simulation.invariants.launches import (
    FencedLaunches,
    IntentFirst,
    Launches,
    LivingInstances,
    OneInstancePerMachine,
    WithinLimits,
)
from simulation.invariants.leadership import (
    FreshMirror,
    OneLeader,
    PresentLeaderWrites,
    WholeCommands,
)
from simulation.invariants.leases import OneWriterPerEpoch
from simulation.invariants.memory import CollectionsAreBounded
from simulation.invariants.mirror import MirrorIsEqual
from simulation.invariants.picture import Picture
from simulation.invariants.pods import PodsRun
from simulation.invariants.processes import (
    EverybodyIsReady,
    FewTasks,
    LoopsAreHonest,
    NoProcessDies,
    NothingFailsUnseen,
    UnreadyWhenCutOff,
)
from simulation.invariants.promptness import NoticesAreHeeded, Promptness, RepeatedSoon
from simulation.invariants.purchases import BoughtOnce, OrderedToStay, WantedByPools
from simulation.invariants.quiet import (
    DeletionsEnd,
    EmptyMachinesGo,
    MachinesAreReady,
    NodesAreOpen,
    NodesHaveMachines,
    NothingLeaked,
    NoticesAreSettled,
    RecordsEnd,
    ReservedAreReserved,
    StaticPoolsAreFull,
    TerminationsEnd,
)


def all_safety() -> list[Safety]:
    """All of them, for one run."""
    picture, disturbances = Picture(), Disturbances()
    launches = Launches(picture)
    return [
        NothingFailsUnseen(),
        EveryFailureIsForeseen(),
        OneInstancePerMachine(launches),
        IntentFirst(launches),
        LivingInstances(launches, disturbances),
        WithinLimits(launches, disturbances),
        BoughtOnce(launches, disturbances),
        OrderedToStay(launches),
        WantedByPools(launches, disturbances),
        FencedLaunches(launches),
        ProvenTerminations(launches),
        ProvenDeletions(launches),
        ReleasedLast(launches, disturbances),
        ReplacedFirst(launches),
        WithinBudgets(picture, disturbances),
        WithinRate(picture, disturbances),
        UndisturbedPods(picture, disturbances),
        PodBudgets(picture),
        DrainedFirst(picture),
        OneWriterPerEpoch(picture),
        OneLeader(),
        PresentLeaderWrites(picture, disturbances),
        WholeCommands(picture, disturbances),
        FreshMirror(picture, disturbances),
        Promptness(launches, disturbances),
        RepeatedSoon(launches, disturbances),
        NoticesAreHeeded(launches, disturbances),
        NoProcessDies(),
        UnreadyWhenCutOff(),
        LoopsAreHonest(),
        NoMessageIsDropped(),
        GroupsReadEverything(),
        FailuresComeAgain(),
        QueuesAreBounded(),
    ]


def all_liveness() -> list[Liveness]:
    """All of them, for one run."""
    picture = Picture()
    return [
        NothingLeaked(picture),
        NodesHaveMachines(picture),
        MachinesAreReady(picture),
        NodesAreOpen(picture),
        RecordsEnd(picture),
        DeletionsEnd(picture),
        TerminationsEnd(picture),
        PodsRun(picture),
        EmptyMachinesGo(picture),
        StaticPoolsAreFull(picture),
        ReservedAreReserved(picture),
        MirrorIsEqual(),
        EveryMessageIsSettled(),
        NoticesAreSettled(),
        StreamsAreTrimmed(),
        FewTasks(),
        EverybodyIsReady(),
        CollectionsAreBounded(picture),
    ]
