"""What each picture of docs/concepts.md shows."""

from __future__ import annotations

from collections.abc import Callable

from release.site.pictures.drawing import Picture


def pod_to_node() -> Picture:
    """Nine steps in three rows, read like a text."""
    picture = Picture(
        "How a pod becomes a node",
        "A pod is unschedulable. Dovetail collects pods, plans, writes a machine and launches an instance. The node "
        "joins and the pod runs.",
        440,
    )
    steps = [
        (
            "cluster",
            "1. Pod is pending",
            "kube-scheduler finds no node",
            "and marks it Unschedulable",
        ),
        ("service", "2. watcher", "sees the pod, writes it to the", "mirror, sends a message"),
        ("service", "3. scheduler", "collects pods: 1 s without a", "new one, 10 s at most"),
        ("service", "4. scheduler", "plans: existing nodes first,", "then types, zones, prices"),
        ("cluster", "5. Machine", "the plan is written as", "NodeClaims or Machines"),
        ("service", "6. launcher", "writes a LaunchRecord, then", "calls CreateFleet"),
        ("aws", "7. Instance", "EC2 starts it with the node", "class's image and user data"),
        ("cluster", "8. Node", "kubelet joins; the launcher", "adds labels and taints"),
        ("good", "9. Pod runs", "kube-scheduler binds it", "to the ready node"),
    ]
    width, height = 250, 92
    for number, (kind, title, *lines) in enumerate(steps):
        row, column = divmod(number, 3)
        x, y = 20 + column * 285, 20 + row * 138
        picture.box(kind, (x, y), (width, height), title, *lines)
        if column < 2:
            picture.arrow([(x + width, y + 46), (x + 283, y + 46)])
        elif row < 2:
            below = y + height + 23
            picture.arrow([(x + 125, y + height), (x + 125, below), (145, below), (145, y + 136)])
    for kind, x, words in (
        ("service", 20, "service of Dovetail"),
        ("cluster", 190, "object in Kubernetes"),
        ("aws", 370, "AWS"),
        ("good", 450, "result"),
    ):
        picture.box(kind, (x, 408), (16, 16), "")
        picture.words((x + 24, 421), words, "quiet")
    return picture


def services() -> Picture:
    """Who talks to whom."""
    picture = Picture(
        "Services and streams",
        "The watcher reads the API server and fills the mirror and the streams in Redis. Scheduler, launcher, "
        "terminator and interruption service read them and act on Kubernetes and AWS.",
        470,
    )
    picture.box(
        "cluster",
        (20, 20),
        (820, 52),
        "Kubernetes API server",
        "the record: pods, nodes, pools, machines, launch records",
    )
    picture.arrow([(600, 178), (600, 394)], "launch", (608, 330), "start")
    picture.arrow([(812, 178), (812, 394)], "terminate", (804, 330), "end")
    picture.box(
        "redis",
        (20, 220),
        (820, 66),
        "Redis",
        "mirror (copy of the cluster)  ·  streams: pods, cluster, launches, machines, terminations, interruptions",
    )
    picture.box("aws", (20, 396), (820, 52), "AWS", "EC2, SQS, IAM, SSM, EKS, Pricing")
    names = [
        ("watcher", "list + watch", (0, 0)),
        ("scheduler", "decides; has a Lease", (1, 0)),
        ("launcher", "CreateFleet, join", (2, 0)),
        ("terminator", "drain, terminate", (3, 0)),
    ]
    for name, words, (column, _) in names:
        x = 20 + column * 212
        picture.box("service", (x, 122), (184, 56), name, words)
    picture.arrow([(90, 74), (90, 120)])
    picture.arrow([(150, 120), (150, 74)], "status", (158, 102), "start")
    picture.arrow([(112, 178), (112, 218)], "writes", (120, 204), "start")
    picture.arrow([(290, 218), (290, 180)])
    picture.arrow([(360, 178), (360, 218)], "messages", (368, 204), "start")
    picture.arrow([(324, 120), (324, 74)], "machines", (332, 102), "start")
    picture.arrow([(500, 218), (500, 180)])
    picture.arrow([(560, 120), (560, 74)], "status, labels", (568, 102), "start")
    picture.arrow([(712, 218), (712, 180)])
    picture.arrow([(760, 120), (760, 74)], "evictions", (752, 102), "end")
    picture.box("service", (232, 318), (184, 48), "interruption", "notices of AWS")
    picture.arrow([(324, 394), (324, 368)], "SQS", (332, 386), "start")
    picture.arrow([(324, 318), (324, 288)], "notices", (332, 308), "start")
    picture.box("service", (20, 318), (184, 48), "console", "shows, decides nothing")
    picture.arrow([(112, 288), (112, 316)])
    return picture


def machine_life() -> Picture:
    """States from left to right, and the ways out below."""
    picture = Picture(
        "The life of a machine",
        "A machine is created, launched, registered and initialized. Disruption, interruption, expiry or a person "
        "deletes it. Then its node is drained, volumes detach, the instance ends and the finalizers are removed.",
        370,
    )
    picture.lane(12, 128, "coming: conditions of the NodeClaim or Machine")
    states = [
        ("wait", "Created", "planned, no instance"),
        ("wait", "Launched", "instance exists"),
        ("wait", "Registered", "node has joined"),
        ("good", "Initialized", "ready, all resources"),
    ]
    for number, (kind, title, line) in enumerate(states):
        picture.box(kind, (30 + number * 208, 52), (166, 62), title, line)
        if number < 3:
            picture.arrow([(196 + number * 208, 83), (236 + number * 208, 83)])
    picture.words((217, 132), "at most 5 min", "word", "middle")
    picture.words((425, 132), "at most 15 min", "word", "middle")
    picture.box(
        "cluster",
        (238, 162),
        (374, 56),
        "deletionTimestamp is set",
        "disruption, interruption, expiry, failed launch, kubectl delete",
    )
    picture.arrow([(737, 116), (737, 190), (614, 190)], "no longer wanted", (728, 160), "end")
    picture.arrow(
        [(113, 116), (113, 190), (236, 190)], "never ready", (122, 160), "start", dashed=True
    )
    picture.lane(240, 118, "")
    picture.words(
        (838, 260),
        "going: the finalizer karpenter.sh/termination holds the object until the instance is gone",
        "quiet",
        "end",
    )
    steps = [
        ("No new pods", "taint or cordon"),
        ("Drain", "evictions, by budget"),
        ("Volumes", "detached"),
        ("Instance", "terminated"),
        ("Gone", "finalizers removed"),
    ]
    for number, (title, line) in enumerate(steps):
        kind = "aws" if title == "Instance" else "cluster"
        picture.box(kind, (26 + number * 164, 276), (140, 62), title, line)
        if number < 4:
            picture.arrow([(166 + number * 164, 307), (188 + number * 164, 307)])
    picture.arrow([(300, 218), (300, 230), (96, 230), (96, 274)])
    return picture


def disruption() -> Picture:
    """A filter from all nodes to one command."""
    picture = Picture(
        "Disruption and budgets",
        "Methods look for machines that may go. Pods, annotations and budgets hold some back. One command "
        "launches replacements, waits for them, and deletes.",
        400,
    )
    picture.lane(12, 108, "1. Which machine should go?")
    methods = [
        ("Empty", "no pods"),
        ("Drifted", "pool or class changed"),
        ("Underutilized", "fewer or cheaper nodes do"),
        ("Expired", "of Provisioners: too old"),
    ]
    for number, (title, line) in enumerate(methods):
        picture.box("service", (26 + number * 206, 46), (188, 58), title, line)
    picture.lane(138, 108, "2. What holds it back?")
    holds = [
        ("Pool", "budgets, schedule, halt"),
        ("Node", "do-not-disrupt, nominated"),
        ("Pods", "do-not-disrupt, PDB at zero"),
        ("consolidateAfter", "pods changed just now"),
    ]
    for number, (title, line) in enumerate(holds):
        picture.box("wait", (26 + number * 206, 172), (188, 58), title, line)
    picture.lane(264, 124, "3. One command at a time for a machine")
    steps = [
        ("service", "Look again", "consolidation: after 15 s"),
        ("service", "Mark", "taint: no new pods"),
        ("aws", "Replace first", "and wait until it is ready"),
        ("cluster", "Delete", "terminator drains"),
    ]
    for number, (kind, title, line) in enumerate(steps):
        picture.box(kind, (26 + number * 206, 304), (170, 64), title, line)
        if number < 3:
            picture.arrow([(196 + number * 206, 336), (230 + number * 206, 336)])
    picture.arrow([(430, 104), (430, 137)])
    picture.arrow([(430, 230), (430, 263)])
    return picture


def interruption() -> Picture:
    """The two minutes of a spot interruption."""
    picture = Picture(
        "A spot interruption",
        "EC2 announces the end two minutes ahead, EventBridge and SQS carry the notice, and the machine is deleted "
        "within a second. A replacement is launched while the old node drains.",
        360,
    )
    flow = [
        ("aws", "EC2", "warning, 2 min ahead"),
        ("aws", "EventBridge", "rule of deploy/iam"),
        ("aws", "SQS", "INTERRUPTION_QUEUE"),
        ("service", "interruption", "by deadline, not arrival"),
    ]
    for number, (kind, title, line) in enumerate(flow):
        picture.box(kind, (20 + number * 214, 20), (180, 60), title, line)
        if number < 3:
            picture.arrow([(200 + number * 214, 50), (232 + number * 214, 50)])
    picture.lane(110, 78, "")
    picture.box("cluster", (662, 121), (180, 56), "Machine deleted", "offering avoided 3 min")
    picture.arrow([(752, 80), (752, 119)])
    picture.words((30, 140), "Both happen at once:", "title")
    picture.words((30, 160), "the replacement does not wait for the drain, and the drain", "quiet")
    picture.words((30, 177), "does not wait for the replacement.", "quiet")
    rows = [
        (
            216,
            "scheduler + launcher",
            [
                ("service", "plan", 60, 70),
                ("aws", "boot of the new instance", 140, 250),
                ("good", "pods start", 400, 200),
            ],
        ),
        (
            272,
            "terminator",
            [
                ("service", "cordon", 60, 70),
                ("cluster", "evict pods within their budgets", 140, 330),
                ("wait", "terminate", 480, 120),
            ],
        ),
    ]
    for y, name, parts in rows:
        picture.words((20, y + 25), name, "quiet")
        for kind, title, x, width in parts:
            picture.box(kind, (100 + x, y), (width, 40), title)
    picture.arrow([(160, 332), (840, 332)])
    for x, words in (
        (160, "0 s"),
        (330, "30 s"),
        (500, "60 s"),
        (670, "90 s"),
        (832, "120 s: EC2 ends it"),
    ):
        picture.words((x, 350), words, "quiet", "middle" if x < 800 else "end")
    return picture


def generations() -> Picture:
    """Two columns of kinds, one model."""
    picture = Picture(
        "Both generations of the API",
        "Provisioner, AWSNodeTemplate and Machine of v1alpha5, and NodePool, EC2NodeClass and NodeClaim of v1, become "
        "the same records: pool, node class and machine.",
        330,
    )
    picture.words((125, 34), "v1alpha5 (Karpenter to v0.31)", "title", "middle")
    picture.words((430, 34), "inside Dovetail", "title", "middle")
    picture.words((735, 34), "v1 (Karpenter 1.x)", "title", "middle")
    rows = [
        (52, "Provisioner", "pool", "which machines, and when they go", "NodePool"),
        (124, "AWSNodeTemplate", "node class", "image, network, disks, user data", "EC2NodeClass"),
        (196, "Machine", "machine", "one node, from plan to end", "NodeClaim"),
    ]
    for y, old, name, words, new in rows:
        picture.box("cluster", (30, y), (190, 52), old)
        picture.box("service", (310, y), (240, 52), name, words)
        picture.box("cluster", (640, y), (190, 52), new)
        picture.arrow([(220, y + 26), (308, y + 26)])
        picture.arrow([(640, y + 26), (552, y + 26)])
    picture.words(
        (430, 276),
        "Both may be in one cluster. One label decides who owns a node:",
        "quiet",
        "middle",
    )
    picture.words(
        (430, 296), "karpenter.sh/provisioner-name or karpenter.sh/nodepool.", "quiet", "middle"
    )
    picture.words(
        (430, 316),
        "dovetail convert turns files of one generation into the other; v1beta1 is read too.",
        "quiet",
        "middle",
    )
    return picture


PICTURES: dict[str, Callable[[], Picture]] = {
    "pod-to-node": pod_to_node,
    "services": services,
    "machine-life": machine_life,
    "disruption": disruption,
    "interruption": interruption,
    "generations": generations,
}
"""By the name of their file."""
