"""``dovetail demo``: run a scenario on a local stack of its own, show it live, report it.

The stack is started for the scenario and stopped after it, also on Ctrl-C and after a failure, unless ``--keep`` is
given.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from cli.demo.diagnosis import explain
from cli.demo.display import Display, print_report, settings_table
from cli.demo.report import Report, write_report
from cli.demo.scenarios import DEFAULT_SCENARIO, SCENARIOS, Scenario, find_scenario
from cli.demo.settings import DemoSettings
from cli.demo.story import play
from cli.stack.environment import from_variables
from cli.stack.up import BootOption
from local.stack import DEFAULT_DIRECTORY, Stack, StackSettings
from shared.concurrency.clock import SystemClock
from shared.errors import ConfigurationError

ScenarioOption = Annotated[str, typer.Option(help="Name of the scenario; --list shows all names.")]
ReportOption = Annotated[
    Path | None, typer.Option(help="Write the outcome as JSON to this file.", dir_okay=False)
]
ListOption = Annotated[bool, typer.Option("--list", help="List the scenarios and exit.")]
KeepOption = Annotated[
    bool, typer.Option("--keep", help="Leave the stack running after the scenario.")
]
TtlOption = Annotated[
    int, typer.Option(min=0, max=3600, help="ttlSecondsAfterEmpty of the Provisioner.")
]
OneProcessOption = Annotated[
    bool, typer.Option("--one-process", help="All services in one process.")
]
PortBaseOption = Annotated[
    int | None, typer.Option(help="First of nine consecutive ports. Default: free ports.")
]
DirectoryOption = Annotated[
    Path,
    typer.Option(envvar="DOVETAIL_DEMO_DIRECTORY", help="Logs and state of the demo's stack."),
]


def demo(
    scenario: ScenarioOption = DEFAULT_SCENARIO,
    report: ReportOption = None,
    list_scenarios: ListOption = False,
    keep: KeepOption = False,
    boot_seconds: BootOption = DemoSettings.boot_seconds,
    ttl_seconds: TtlOption = DemoSettings.ttl_seconds_after_empty,
    one_process: OneProcessOption = False,
    port_base: PortBaseOption = None,
    directory: DirectoryOption = DEFAULT_DIRECTORY / "demo",
) -> None:
    """Run a scenario live, on a cluster and a cloud of its own.

    No account, container or root is needed, and nothing is left afterwards.

    Examples:

      dovetail demo

      dovetail demo --scenario spot-interruption --report outcome.json

      dovetail demo --scenario consolidate

      dovetail demo --keep    # then: source .dovetail/demo/env
    """
    if list_scenarios:
        Console().print(_scenario_table())
        return
    chosen = find_scenario(scenario)
    _require_folder_of(report)
    settings = _settings_for(chosen, boot_seconds, ttl_seconds)
    stack = Stack(directory)
    plan = settings.stack(stack.directory, port_base=port_base, one_process=one_process)
    outcome = _perform(stack, plan, chosen, settings, keep=keep)
    if report is not None:
        write_report(report, outcome)
    if not outcome.ok:
        raise typer.Exit(1)


def _require_folder_of(report: Path | None) -> None:
    """Raises ConfigurationError. Before the scenario: its outcome would be lost after minutes."""
    if report is not None and not report.absolute().parent.is_dir():
        raise ConfigurationError(
            f"--report {report}: {report.absolute().parent} is not a directory"
        )


def _settings_for(scenario: Scenario, boot_seconds: float, ttl_seconds: int) -> DemoSettings:
    return DemoSettings(
        boot_seconds=boot_seconds,
        ttl_seconds_after_empty=ttl_seconds,
        batch_max_seconds=scenario.batch_max_seconds,
    )


def _perform(
    stack: Stack, plan: StackSettings, scenario: Scenario, settings: DemoSettings, *, keep: bool
) -> Report:
    """Start the stack, run the scenario, and stop the stack unless it is kept."""
    console = Console()
    _announce(scenario, settings, console)
    try:
        state = stack.start(plan, detach=keep, progress=partial(_print_progress, console))
        page = state.environment["DOVETAIL_CONSOLE_URL"]
        console.print(f"Watch it live: {page}", style="bold", soft_wrap=True)
        outcome = asyncio.run(_play_and_print(stack, scenario, settings, console))
    finally:
        if not keep:
            stack.stop()
    if keep:
        _print_how_to_stop(stack, console)
    return outcome


def _announce(scenario: Scenario, settings: DemoSettings, console: Console) -> None:
    heading = f"[bold]{scenario.name}[/bold]: {scenario.summary}\n"
    console.print(heading, highlight=False, soft_wrap=True)
    console.print(settings_table(settings.rows()))


def _print_progress(console: Console, message: str) -> None:
    console.print(f"stack: {message}", style="dim")


def _print_how_to_stop(stack: Stack, console: Console) -> None:
    console.print(f"The stack is still running: source {stack.environment_file}", soft_wrap=True)
    console.print(f"Stop it with: {stack.command('down')}", highlight=False, soft_wrap=True)


async def _play_and_print(
    stack: Stack, scenario: Scenario, settings: DemoSettings, console: Console
) -> Report:
    environment = from_variables(stack.running().environment)
    display = Display(console)
    with display.live():
        outcome = await play(scenario, settings, environment, display, SystemClock())
    print_report(console, outcome)
    if not outcome.ok:
        errors = Console(stderr=True)
        # First, because the diagnosis asks the services, which takes seconds and may fail.
        errors.print(failure_line(outcome), style="red", markup=False)
        for line in await explain(environment, stack.directory / "logs"):
            errors.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)
    return outcome


def failure_line(outcome: Report) -> str:
    """The scenario, and what ended it: a failure, or the checks that failed."""
    failed = [f"{check.name}: {check.detail}" for check in outcome.checks if not check.ok]
    return f"{outcome.scenario} failed: {outcome.failure or '; '.join(failed)}"


def _scenario_table() -> Table:
    table = Table(header_style="bold")
    table.add_column("scenario", no_wrap=True)
    table.add_column("what happens")
    for known in SCENARIOS.values():
        default = " (default)" if known.name == DEFAULT_SCENARIO else ""
        table.add_row(known.name, known.summary + default)
    return table
