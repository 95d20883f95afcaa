"""What the services and commands share."""

import os

from shared.runtime.ending import interrupts_in_one_line

# BLAS starts a thread for each core, and these spin after each product. The planner's matrices are small: one thread is
# as fast, and a command takes a fifth less CPU. It is read when numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Here and in the other parts, because a part is imported before the module that a command line names.
interrupts_in_one_line()
