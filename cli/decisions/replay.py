"""``dovetail replay``: makes recorded decisions again, as they were or with other settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from cli.decisions.recorded import ClusterOption, StoreOption, moment, period, read_archive
from cli.decisions.replaying.again import Difference, decided_again, difference
from cli.decisions.replaying.changes import (
    OFFERED,
    Changes,
    changed_question,
    changed_snapshot,
    read_changes,
)
from cli.decisions.replaying.facts import outcome_facts
from cli.decisions.replaying.period import Compared, compare_period, facts
from cli.manifests.simulate import documents_of
from cli.options import Output, OutputOption
from cli.stack.environment import StackOption
from cli.text import counted, escaped, print_json
from local.stack import DEFAULT_DIRECTORY
from shared.cloud.catalogue.bundled import bundled_catalogue
from shared.concurrency.clock import SystemClock, rfc3339
from shared.domain.pools.nodepools import NodePool
from shared.errors import ConfigurationError
from shared.runtime.archive.opening import versions_now
from shared.runtime.archive.reading import Archive, Restored
from shared.simulation.decisions.names import MAIN, SHADOW
from shared.simulation.decisions.records import DecisionRecord, Outcome, decode_outcome
from shared.simulation.inputs import read_inputs
from shared.simulation.workloads import MOST_PODS

DIFFERENT = 2
MOST_NAMED = 10
AtOption = Annotated[
    str,
    typer.Option(
        "--at", help="The last decision up to this time: 2026-11-25T10:42:00Z, or 2h for two hours ago."
    ),
]  # fmt: skip
DecisionOption = Annotated[
    str, typer.Option("--decision", help="The decision with this id, see `dovetail decisions`.")
]
FromOption = Annotated[
    str, typer.Option("--from", help="All decisions from this time on, as of --at.")
]
ToOption = Annotated[str, typer.Option("--to", help="The end of the period. Default: now.")]
WithOption = Annotated[
    list[str] | None,
    typer.Option("--with", help=f"Another setting, as NAME=VALUE; names: {', '.join(OFFERED)}."),
]
WithFileOption = Annotated[
    list[str] | None,
    typer.Option(
        "--with-file", help="A file with NodePools or Provisioners, in place of those recorded."
    ),
]
ShadowOption = Annotated[
    bool, typer.Option("--shadow", help="The decisions of the shadow scheduler.")
]


def replay(
    at: AtOption = "",
    decision: DecisionOption = "",
    begin: FromOption = "",
    end: ToOption = "",
    settings: WithOption = None,
    files: WithFileOption = None,
    shadow: ShadowOption = False,
    output: OutputOption = "table",
    store: StoreOption = "",
    cluster: ClusterOption = "",
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Make recorded decisions again: byte for byte the same, or with other settings.

    The cluster of that moment is restored from the archive and planned again by this version. Where the outcome is not
    the recorded one, the first difference is printed with both versions. With --with or --with-file the decision is
    made with other settings or pools, and both outcomes are shown. A period (--from) is made again decision by
    decision; with other settings it is run again in simulated time, on the pods that came and went, and compared.

    Exit code 2: a decision came out differently without --with and --with-file. Exit code 1: nothing is recorded, or a
    part of the archive is gone.

    Examples:

      dovetail replay --at 2h

      dovetail replay --decision 1f3870be274f6c49 --with policy=LowestCost

      dovetail replay --from 24h --with consolidation=Global --with-file pool.yaml
    """
    named = [option for option in (at, decision, begin) if option]
    if len(named) != 1:
        raise ConfigurationError("name one of --at, --decision and --from")
    changes = read_changes(settings or (), pools_of(files or ()))
    clock = SystemClock()
    first, last = period(begin, end, clock)

    async def read(archive: Archive) -> int:
        if begin and changes:
            return _print_period(await compare_period(archive, first, last, changes), output)
        if begin:
            return _print_all(await replay_all(archive, first, last), output)
        if decision:
            record = await archive.find(decision)
        else:
            record = await archive.at(moment(at, clock, "--at"))
        return _print_one(await archive.restore(record), changes, output)

    role = SHADOW if shadow else MAIN
    place = {"store": store, "cluster": cluster, "directory": directory, "role": role}
    raise typer.Exit(read_archive(read, **place))  # type: ignore[arg-type]


def pools_of(files: Iterable[str]) -> Iterator[NodePool]:
    """The pools in these files. Raises ConfigurationError for a file without one, or with a fault."""
    for name in files:
        found = read_inputs(documents_of([name]), bundled_catalogue, MOST_PODS)
        if found.faults:
            raise ConfigurationError(f"{name}: {found.faults[0].text}")
        if not found.snapshot.pools:
            raise ConfigurationError(f"{name} has no NodePool and no Provisioner")
        yield from found.snapshot.pools


@dataclass
class Replayed:
    """How many decisions came out the same, and the first that did not."""

    same: int = 0
    timed_out: int = 0
    """Decisions that ran out of time, and would not do so again."""
    lost: list[DecisionRecord] = field(default_factory=list)
    """Their input is not complete any more."""
    different: list[tuple[DecisionRecord, Difference]] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.same + len(self.different)


async def replay_all(archive: Archive, begin: float, end: float) -> Replayed:
    """Every decision of a period, made again."""
    done = Replayed()
    async for record, snapshot in archive.walk(begin, end, done.lost):
        if record.timed_out:
            done.timed_out += 1
            continue
        found = difference(record, decided_again(snapshot, record.question))
        if found is None:
            done.same += 1
        else:
            done.different.append((record, found))
    return done


def _print_all(done: Replayed, output: Output) -> int:
    if output == "json":
        print_json(
            {
                "decisions": done.total,
                "same": done.same,
                "timedOut": done.timed_out,
                "lost": len(done.lost),
                "different": [_different(*one) for one in done.different],
            }
        )
        return DIFFERENT if done.different else 0
    typer.echo(f"{done.same:,} of {counted_in_words(done.total)} byte for byte the same")
    if done.timed_out:
        typer.echo(
            f"{counted(done.timed_out, 'decision')} left out: the time for planning was over"
        )
    if done.lost:
        typer.echo(f"{counted(len(done.lost), 'decision')} left out: the input is not complete")
    for record, found in done.different[:MOST_NAMED]:
        typer.echo(f"\n{record.id} of {rfc3339(record.at)}")
        _print_difference(record, found)
    return DIFFERENT if done.different else 0


def counted_in_words(number: int) -> str:
    """``1 decision is``, ``1,000 decisions are``."""
    return "1 decision is" if number == 1 else f"{number:,} decisions are"


def _print_one(restored: Restored, changes: Changes, output: Output) -> int:
    record, snapshot = restored
    if changes:
        outcome = decided_again(
            changed_snapshot(snapshot, changes), changed_question(record.question, changes)
        )
        return _print_changed(record, outcome, output)
    found = difference(record, decided_again(snapshot, record.question))
    if output == "json":
        same = {"id": record.id, "same": found is None}
        print_json(same if found is None else same | _different(record, found))
        return 0 if found is None else DIFFERENT
    typer.echo(f"{record.id} of {rfc3339(record.at)}: {escaped(record.text)}")
    if record.timed_out:
        typer.echo("the time for planning was over then; now it was not limited")
    if found is None:
        typer.echo("byte for byte the same")
        return 0
    _print_difference(record, found)
    return DIFFERENT


def _different(record: DecisionRecord, found: Difference) -> dict[str, Any]:
    return {
        "id": record.id,
        "path": found.path,
        "recorded": found.recorded,
        "now": found.now,
        "recordedBy": record.versions.text(),
        "version": versions_now().text(),
    }


def _print_difference(record: DecisionRecord, found: Difference) -> None:
    typer.echo(f"the first difference is at {escaped(found.path)}")
    typer.echo(f"  {record.versions.text()}: {escaped(found.recorded)}")
    typer.echo(f"  {versions_now().text()}: {escaped(found.now)}")


def _print_period(compared: Compared, output: Output) -> int:
    before, after = facts(compared.recorded), facts(compared.changed)
    if output == "json":
        print_json(
            {
                "from": rfc3339(compared.begin),
                "to": rfc3339(compared.end),
                "pods": compared.pods,
                "bootSeconds": compared.boot_seconds,
                "recorded": before,
                "changed": after,
            }
        )
        return 0
    typer.echo(
        f"{rfc3339(compared.begin)} to {rfc3339(compared.end)}, {counted(compared.pods, 'pod')} came; "
        f"a node is ready after {compared.boot_seconds:.0f} s. Both columns are simulated."
    )
    _print_columns(before, after)
    return 0


def _print_columns(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    widest = max(map(len, (*before, *after)))
    typer.echo(f"{'':{widest}}  {'RECORDED':>16}  {'CHANGED':>16}")
    for name in dict.fromkeys((*before, *after)):
        typer.echo(f"{name:{widest}}  {_cell(before, name)}  {_cell(after, name)}")


def _print_changed(record: DecisionRecord, outcome: Outcome, output: Output) -> int:
    before = outcome_facts(decode_outcome(record.kind, record.outcome))
    after = outcome_facts(outcome)
    if output == "json":
        print_json({"id": record.id, "recorded": before, "changed": after})
        return 0
    typer.echo(f"{record.id} of {rfc3339(record.at)}: {escaped(record.text)}")
    _print_columns(before, after)
    return 0


def _cell(facts: Mapping[str, Any], name: str) -> str:
    return f"{escaped(str(facts.get(name, '-'))):>16}"
