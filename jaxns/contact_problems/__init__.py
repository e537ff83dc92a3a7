"""Contact problems (G, c, μ) on their own: solved (`solve_contacts`), and read from the files of the field (`load`)."""

from .files import load
from .solution import ContactSolution, solve_contacts

__all__ = ["ContactSolution", "load", "solve_contacts"]
