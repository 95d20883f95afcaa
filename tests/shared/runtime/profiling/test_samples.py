"""What was sampled becomes the two formats that tools read, in bounded memory."""

from __future__ import annotations

from shared.runtime.profiling.samples import Samples

LOOP, PLAN = ("MainThread", "run", "select"), ("worker", "solve")


def sampled() -> Samples:
    found = Samples(0.01)
    for _ in range(3):
        found.add([LOOP, PLAN])
    found.add([LOOP])
    return found


def test_collapsed_stacks_have_their_counts_most_frequent_first() -> None:
    assert sampled().collapsed() == "MainThread;run;select 4\nworker;solve 3\n"


def test_a_speedscope_document_weighs_stacks_in_seconds_and_names_each_frame_once() -> None:
    document = sampled().speedscope("scheduler")
    names = [frame["name"] for frame in document["shared"]["frames"]]
    assert sorted(names) == sorted({*LOOP, *PLAN})
    (profile,) = document["profiles"]
    assert [[names[i] for i in stack] for stack in profile["samples"]] == [[*LOOP], [*PLAN]]
    assert profile["weights"] == [0.04, 0.03]
    assert (profile["type"], profile["unit"], profile["endValue"]) == ("sampled", "seconds", 0.07)


def test_stacks_beyond_the_limit_count_together() -> None:
    found = Samples(0.01, most=2)
    for number in range(10):
        found.add([("thread", f"f{number}")])
    assert found.counts == {("thread", "f0"): 1, ("thread", "f1"): 1, ("(further stacks)",): 8}
