"""``dovetail cloud``: failing calls, lost answers and stale lists of the emulated AWS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from cli.cloud.capacity import NO_SPOT_ROLE
from cli.cloud.control import CloudControl, cloud_control, given
from cli.options import SeedOption
from cli.printing import print_line, print_table
from cli.stack.environment import StackOption
from local.stack import DEFAULT_DIRECTORY
from shared.errors import ConfigurationError

THROTTLED: dict[str, Any] = {
    "code": "RequestLimitExceeded",
    "message": "Request limit exceeded.",
    "status": 503,
}


@dataclass(frozen=True)
class Preset:
    """A named failure. ``path``: what the request changes; another one than ``faults`` has no calls and no options."""

    action: str
    meaning: str
    body: dict[str, Any]
    path: str = "faults"


def _refusal(code: str, status: int = 400) -> dict[str, Any]:
    return {"code": code, "message": f"{code}, ordered by dovetail cloud", "status": status}


PRESETS = {
    "lost-answer": Preset(
        "CreateFleet", "done, but the connection closes", {"status": 0, "mode": "after"}
    ),
    "timeout": Preset(
        "CreateFleet",
        "done, then silence for --delay seconds",
        {"status": 0, "mode": "after", "delaySeconds": 90},
    ),
    "slow": Preset(
        "*", "done and answered after --delay seconds", {"mode": "slow", "delaySeconds": 5}
    ),
    "server-error": Preset("*", "500 before anything is done", {"status": 500}),
    "unavailable": Preset("*", "503 before anything is done", _refusal("Unavailable", 503)),
    "foreign-answer": Preset(
        "CreateFleet",
        "done, but a proxy answers with a page of its own",
        {"mode": "after", "status": 200, "body": "<html><body>the proxy's page</body></html>"},
    ),
    "error-after": Preset("CreateFleet", "done, but the answer is a 500", {"mode": "after"}),
    "unauthorized": Preset(
        "CreateFleet", "permission missing", _refusal("UnauthorizedOperation", 403)
    ),
    "token-mismatch": Preset(
        "CreateFleet", "token known with other values", _refusal("IdempotentParameterMismatch")
    ),
    "token-terminated": Preset(
        "CreateFleet", "token's instances ended", _refusal("IdempotentInstanceTerminated")
    ),
    "template-missing": Preset(
        "CreateFleet",
        "launch template not found, though it exists",
        _refusal("InvalidLaunchTemplateName.NotFoundException"),
    ),
    "templates-deleted": Preset(
        "", "all launch templates are deleted", {"delete": "*"}, path="launch-templates"
    ),
    "spot-role": Preset(
        "", "spot is refused: no service-linked role", NO_SPOT_ROLE, path="capacity"
    ),
    "kms": Preset("KMSDecrypt", "the next instances end at once: key unreachable", {}),
    "sqs-outage": Preset("sqs:*", "the queue answers 503", _refusal("ServiceUnavailable", 503)),
    "custom": Preset("*", "as given by --code, --status and --mode", {}),
}

CountOption = Annotated[
    int | None,
    typer.Option("--calls", help="Number of calls that fail (1 unless --seconds is given)."),
]
SecondsOption = Annotated[float | None, typer.Option(help="Seconds until the fault ends.")]


ThrottledArgument = Annotated[
    str, typer.Argument(help="API action, with * and ?; `sqs:*` names a service.")
]
RateOption = Annotated[
    float | None, typer.Option(help="Calls per second that succeed; the others are refused.")
]
BurstOption = Annotated[int, typer.Option(help="Calls that may succeed at once, with --rate.")]
RefusalOption = Annotated[str, typer.Option(help="Error code of the refusal.")]


def throttle(
    action: ThrottledArgument = "*",
    calls: CountOption = None,
    seconds: SecondsOption = None,
    rate: RateOption = None,
    burst: BurstOption = 1,
    code: RefusalOption = THROTTLED["code"],
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Refuse API calls with RequestLimitExceeded: a number of calls, for a time, or above a rate.

    All given limits apply together. `dovetail cloud reset` ends it.

    Examples:

      dovetail cloud throttle CreateFleet --calls 5

      dovetail cloud throttle 'Describe*' --seconds 43

      dovetail cloud throttle '*' --rate 2 --burst 10 --seconds 300
    """
    if calls is None and seconds is None and rate is None:
        raise ConfigurationError("no limit is given; use --calls 5, --seconds 60 or --rate 2")
    limits = {"count": calls, "seconds": seconds, "callsPerSecond": rate, "burst": burst}
    body = {**THROTTLED, "code": code, "action": action, **given(limits)}
    cloud_control(directory).post("faults", body)
    print_line(f"{action} is throttled ({code})")


FailureArgument = Annotated[
    str | None, typer.Argument(help="Name of the failure. Default: list all failures.")
]
ActionArgument = Annotated[
    str | None,
    typer.Argument(help="API action, with * and ?. Default: the usual action of the failure."),
]
SkipOption = Annotated[int, typer.Option(help="Number of calls that succeed first.")]
PercentOption = Annotated[float, typer.Option(help="Percentage of the calls that fail.")]
DelayOption = Annotated[
    float | None, typer.Option(help="Seconds by which the answer is delayed (at most 300).")
]
CodeOption = Annotated[str | None, typer.Option(help="Another AWS error code.")]
StatusOption = Annotated[
    int | None, typer.Option(help="Another HTTP status; 0 closes the connection.")
]
ModeOption = Annotated[
    str | None,
    typer.Option(help="before (the call has no effect), after (the call has its effect) or slow."),
]


def fault(
    preset: FailureArgument = None,
    action: ActionArgument = None,
    calls: CountOption = None,
    seconds: SecondsOption = None,
    skip: SkipOption = 0,
    percent: PercentOption = 100,
    seed: SeedOption = 0,
    delay: DelayOption = None,
    code: CodeOption = None,
    status: StatusOption = None,
    mode: ModeOption = None,
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Make API calls fail; without arguments, list the failures by name and the active faults.

    Examples:

      dovetail cloud fault

      dovetail cloud fault lost-answer CreateFleet

      dovetail cloud fault timeout CreateFleet --delay 90

      dovetail cloud fault server-error '*' --percent 20 --seed 1 --seconds 60

      dovetail cloud fault unauthorized CreateLaunchTemplate --seconds 600

      dovetail cloud fault custom TerminateInstances --code IncorrectState --status 400 --calls 2
    """
    control = cloud_control(directory)
    if preset is None:
        _print_faults(control.get("faults")["faults"])
        return
    options = {"code": code, "status": status, "mode": mode, "delaySeconds": delay}
    limits = {"count": calls, "seconds": seconds, "skip": skip, "percent": percent, "seed": seed}
    _arrange(control, preset, action, given({**options, **limits}))


def _arrange(
    control: CloudControl, name: str, action: str | None, changes: Mapping[str, Any]
) -> None:
    """Send the failure. Options override the values of the preset."""
    if name not in PRESETS:
        raise ConfigurationError(
            f"there is no failure {name!r}; the failures are: {', '.join(PRESETS)}"
        )
    preset = PRESETS[name]
    if preset.path != "faults":
        control.post(preset.path, preset.body)
        print_line(preset.meaning)
        return
    target = action or preset.action
    control.post("faults", {"action": target, **preset.body, **changes})
    print_line(f"{target}: {preset.meaning}")


def lag(
    seconds: Annotated[float, typer.Argument(help="Seconds by which lists are behind, 0 to 600.")],
    seed: Annotated[
        int | None,
        typer.Option(
            help="Seed of a random lag per instance. Default: every instance has the full lag."
        ),
    ] = None,
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Delay the results of DescribeInstances: new instances, tags and states appear later.

    EC2 is eventually consistent. For a new instance the answer is InvalidInstanceID.NotFound until its lag is over.

    Examples:

      dovetail cloud lag 90

      dovetail cloud lag 90 --seed 1

      dovetail cloud lag 0
    """
    body = {"describeLagSeconds": seconds, "describeLagSeed": seed}
    cloud_control(directory).post("settings", body)
    print_line(f"describe calls are {'up to ' if seed is not None else ''}{seconds:g} s behind")


def _print_faults(active: list[dict[str, Any]]) -> None:
    known = [(name, preset.action, preset.meaning) for name, preset in PRESETS.items()]
    print_table(("name", "usual action", "what happens"), known, title="Failures")
    fields = ("action", "code", "status", "mode", "callsLeft", "secondsLeft", "callsPerSecond")
    print_table(
        ("action", "code", "status", "mode", "calls", "seconds", "rate", "met"),
        [["" if row[f] is None else str(row[f]) for f in (*fields, "met")] for row in active],
        title="Active",
    )
