"""The planner's solver, with what its settings name in texts of their own."""

from __future__ import annotations

from services.scheduler.provisioning.planner import Solver
from shared.api.core.scheduler_config import default_spread
from shared.concurrency.clock import Clock
from shared.domain.workloads.pods import SpreadConstraint
from shared.errors import ConfigurationError, InvalidObject
from shared.settings import SchedulerSettings
from shared.settings.reading import text_of
from shared.solver.pools.expander import Priorities, read_priorities


def solver_of(settings: SchedulerSettings, clock: Clock) -> Solver:
    """Raises ConfigurationError that names the setting and the field."""
    spread = _default_spread(settings.scheduler_config)
    return Solver(settings, clock, spread, _priorities(settings.expander_priorities))


def _default_spread(setting: str) -> tuple[SpreadConstraint, ...]:
    """Of SCHEDULER_CONFIG (SCH-85). Raises ConfigurationError that names the field."""
    try:
        return default_spread(text_of(setting, "SCHEDULER_CONFIG"))
    except InvalidObject as error:
        raise ConfigurationError(f"wrong settings: SCHEDULER_CONFIG: {error}") from error


def _priorities(setting: str) -> Priorities:
    """Of EXPANDER_PRIORITIES. Raises ConfigurationError."""
    try:
        return read_priorities(text_of(setting, "EXPANDER_PRIORITIES"))
    except ConfigurationError as error:
        raise ConfigurationError(f"wrong settings: EXPANDER_PRIORITIES: {error.message}") from error
