"""``python -m services.interruption``: run this one service."""

from services.interruption.service import ENTRY
from shared.environment import main

main(ENTRY)
