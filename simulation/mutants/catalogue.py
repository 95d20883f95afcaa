"""All mutants."""

from __future__ import annotations

from simulation.mutants.ending import ENDING
from simulation.mutants.features import FEATURES
from simulation.mutants.launching import LAUNCHING
from simulation.mutants.messaging import MESSAGING

MUTANTS = (*MESSAGING, *LAUNCHING, *ENDING, *FEATURES)
