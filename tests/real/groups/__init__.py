"""Groups with members of several clients, which are started, closed or killed, and judged by their event logs."""

from .crew import Crew, Member
from .ledger import Ledger
from .local import Local, Locals

__all__ = ["Crew", "Ledger", "Local", "Locals", "Member"]
