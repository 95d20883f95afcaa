"""What must hold in every run, whatever the faults: ``catalogue`` names all of it.

An invariant reads the world itself (the API server's store, EC2's instances, Redis' keys) and judges without Dovetail's
own decisions, so a fault in these shows.
"""

from simulation.invariants.catalogue import all_liveness, all_safety
from simulation.invariants.kinds import Liveness, Safety

__all__ = ["Liveness", "Safety", "all_liveness", "all_safety"]
