"""Groups whose members are processes of several clients: started, told to leave or killed, judged by their diaries."""

from .crew import Crew, Member
from .ledger import Ledger
from .local import Local, Locals

__all__ = ["Crew", "Ledger", "Local", "Locals", "Member"]
