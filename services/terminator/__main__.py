"""``python -m services.terminator``: run this one service."""

from services.terminator.service import ENTRY
from shared.environment import main

main(ENTRY)
