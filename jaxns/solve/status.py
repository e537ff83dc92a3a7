"""What a solve or a step reports about itself."""

from __future__ import annotations

import enum


class Status(enum.IntEnum):
    """Outcome of one solve or one time step; `message` says it in words.

    >>> Status(1).name, Status(1).message
    ('NOT_CONVERGED', 'the iteration limit was reached before the tolerance')
    """

    OK = 0
    NOT_CONVERGED = 1
    NONFINITE = 2
    STOPPED = 3
    RAY = 4
    TOO_MANY_STEPS = 5
    INFEASIBLE = 6
    BAD_INPUT = 7

    @property
    def message(self) -> str:
        return _MESSAGES[self]


_MESSAGES = {
    Status.OK: "converged",
    Status.NOT_CONVERGED: "the iteration limit was reached before the tolerance",
    Status.NONFINITE: "a residual became NaN or infinite",
    Status.STOPPED: "not run, because an earlier step failed",
    Status.TOO_MANY_STEPS: "more steps between two rows than max_steps allows (raise it, or take a smaller dt)",
    Status.INFEASIBLE: "the contact problem of the step has no solution",
    Status.BAD_INPUT: (
        "a step size, an initial state, a coefficient or a mass matrix that cannot be (an eager call says which)"
    ),
    Status.RAY: "complementary pivoting ended on a ray: no solution was found",
}
