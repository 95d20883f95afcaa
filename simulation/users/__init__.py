"""The people who use the simulated cluster.

``plan_users`` draws from the seed what they do and when; ``perform`` does one of these actions, through the API server
as kubectl does, or in EC2 as a person does in AWS's console. A plan names only objects that people name themselves, so
an action can be left out: what it would have created is then missing, and later actions on it do nothing, as for a
person who gets "not found".
"""

from simulation.users.actions import Action, What
from simulation.users.performing import NO_ANSWER, perform, repeated
from simulation.users.planner import UserSettings
from simulation.users.planning import plan_users

__all__ = ["NO_ANSWER", "Action", "UserSettings", "What", "perform", "plan_users", "repeated"]
