"""`explore`: a mechanical system with sliders, in a notebook."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp

from ..integrators.event_driven.integrator import EventDriven
from ..integrators.moreau import Moreau
from ..integrators.rattle import Rattle
from ..mechanism import Mechanism
from ..model.system import Problem
from ..scene import Scene
from . import sliders
from .explorer import Explorer, check_integrators
from .sliders import Range, Slider

if TYPE_CHECKING:
    from .widget import Exploration

SPAN, STEP = 2.0, 1e-3  # s, of mechanisms, which have no end time and step size of their own
FIRST_STEPS = 10_000  # at most, with a step size that nobody chose: so a slider does not wait


def explore(
    problem: Problem | Mechanism,
    params: Iterable[str] | Mapping[str, Range] | None = None,
    *,
    initial: Iterable[str] | Mapping[str, Range] | None = None,
    integrators: Sequence[Any] | None = None,
    dt: float | None = None,
    t1: float | None = None,
    frames: int = 120,
    draw: Callable[..., Scene] | None = None,
    title: str = "",
    name: str | None = None,
) -> Exploration:
    """Sliders for a system, with a film and curves that follow; in Jupyter, as the last line of a cell.

    Main arguments:

    - problem: a `Problem`, as all of `jaxns.models`, or a `Mechanism`
    - params: names of parameters, such as "mu" or "box.size[0]", or a dict from names to ranges (low, high); by default the
      first eight that are numbers

    Other arguments:

    - initial: entries of the initial state, as `params`: "q[0]", "u[2]", and of mechanisms "box.x", "box.y", "box.angle",
      "box.vx", "box.vy", "box.spin"; by default the first six of q and of u
    - integrators: to choose among; by default Rattle, Moreau and EventDriven
    - dt, t1: step size and end time at the beginning; by default those of the problem, with at most
      10,000 steps, or 1 ms and 2 s
    - frames: of the film
    - draw: the drawing, if the problem has none
    - name: of the problem in the code that the button writes; by default the variable that it is in

    The first run compiles; after it, parameters, initial states, step size and end time share the program, and another
    integrator compiles when it is chosen first. An initial state that violates constraints or gaps is moved to the nearest
    one that does not (`ns.consistent`). `.values`, `.trajectory` and `.code` of what is returned are those of the sliders.
    Needs anywidget: `pip install 'jaxns-mechanics[explore]'`.

    >>> import jaxns as ns
    >>> ball = ns.models.bouncing_ball()
    >>> view = ns.explore(ball, ["e_N"], initial=["q[1]"])  # doctest: +SKIP
    """
    name = name or _name_of(problem) or "problem"
    arguments = (params, initial, integrators, dt, t1, frames, draw, title)
    explorer = explorer_of(problem, *arguments, name=name)
    try:
        from .widget import Exploration
    except ImportError as error:
        raise ImportError("explore needs anywidget: pip install 'jaxns-mechanics[explore]'") from error
    return Exploration(explorer)


def explorer_of(
    problem: Problem | Mechanism,
    params: Iterable[str] | Mapping[str, Range] | None = None,
    initial: Iterable[str] | Mapping[str, Range] | None = None,
    integrators: Sequence[Any] | None = None,
    dt: float | None = None,
    t1: float | None = None,
    frames: int = 120,
    draw: Callable[..., Scene] | None = None,
    title: str = "",
    name: str = "problem",
) -> Explorer:
    """What `explore` shows, without a page: see there for the arguments.

    >>> import jaxns as ns
    >>> ball = ns.models.bouncing_ball()
    >>> explorer = explorer_of(ball, ["e_N"], initial=["q[1]"], frames=20)
    >>> reply, numbers = explorer.answer({"id": 1, "values": {"e_N": 0.9}})
    >>> reply["outcome"], reply["film"]["frames"]
    ('all steps converged', 21)
    """
    if not isinstance(problem, (Problem, Mechanism)):
        raise TypeError(f"explore: the first argument must be a Problem or a Mechanism, got {type(problem).__name__}.")
    draw = draw or problem.draw
    if draw is None:
        raise ValueError("explore: there is no drawing; give draw=, a function (t, q, p) -> jaxns.Scene.")
    usual = (problem.dt, problem.t1) if isinstance(problem, Problem) else (STEP, SPAN)
    t1 = float(usual[1] if t1 is None else t1)
    dt = max(usual[0], t1 / FIRST_STEPS) if dt is None else float(dt)
    if not (0.0 < dt < t1 and frames > 0):
        raise ValueError(f"explore: dt, t1 and frames must be positive, and dt < t1; got {dt}, {t1} and {frames}.")
    q0, u0 = jnp.asarray(problem.q0, float), jnp.asarray(problem.u0, float)
    moved = (
        *sliders.of_parameters(problem.system.params, params),
        *sliders.of_state(problem, q0, u0, initial),
        Slider("dt", "time", "dt", None, 0.05 * dt, 20.0 * dt, dt, logarithmic=True),
        Slider("t1", "time", "t1", None, 0.05 * t1, 5.0 * t1, t1, logarithmic=True),
    )
    chosen = check_integrators((Rattle(), Moreau(), EventDriven()) if integrators is None else integrators)
    names = {"q": sliders.coordinates(problem, "q", len(q0)), "u": sliders.coordinates(problem, "u", len(u0))}
    return Explorer(problem.system, q0, u0, draw, moved, names, chosen, int(frames), title, name)


def _name_of(problem: Any) -> str | None:
    """The variable in which the caller of `explore` has the problem."""
    caller = sys._getframe(2)
    names = {**caller.f_globals, **caller.f_locals}
    return next((n for n, value in names.items() if value is problem and not n.startswith("_")), None)
