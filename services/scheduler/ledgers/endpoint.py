"""The ledgers on the status port. Who may use ``/explain`` may use them."""

from __future__ import annotations

from collections.abc import Callable

from services.scheduler.ledgers import constraints, regret
from services.scheduler.ledgers.constraints import ConstraintsLedger
from services.scheduler.ledgers.regret import RegretLedger
from services.scheduler.state.cluster import ClusterState
from services.scheduler.state.recording import place_of
from services.scheduler.status import explain
from services.scheduler.status.access import admission
from shared.concurrency.clock import Clock
from shared.kube.token_access import TokenAccess
from shared.runtime.leadership import Leadership
from shared.runtime.services import Question
from shared.settings import SchedulerSettings
from shared.solver.solve import SolverSettings


def ledgers(
    settings: SchedulerSettings,
    cluster: ClusterState,
    options: Callable[[], SolverSettings],
    clock: Clock,
    leadership: Leadership,
    access: TokenAccess,
) -> list[Question]:
    """Both endpoints; where questions are off, the answer says so. ``options``: of the planner, as they are now."""
    admit = admission(settings.questions, explain.PATH, access)
    rules = ConstraintsLedger(cluster, options, clock)
    savings = RegretLedger(place_of(settings), clock, lambda: leadership.held)
    texts = {
        constraints.PATH: ("What the rules of the dearest workloads cost", rules.answer),
        regret.PATH: ("What the consolidations of the last hours saved", savings.answer),
    }
    return [
        Question(path, text, answer, 0, admit, method="GET")
        for path, (text, answer) in texts.items()
    ]
