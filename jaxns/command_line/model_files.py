"""Models from files on the command line: `jaxns run FILE`, `jaxns show FILE`."""

from __future__ import annotations

import argparse
import sys
import warnings
import webbrowser
from pathlib import Path

import jax.numpy as jnp

import jaxns as ns

from ..mechanism.files.sources import Source
from .choice import UsageError, finite, unknown

SUFFIXES = (".urdf", ".xml", ".mjcf")
DT, T1 = 1e-3, 1.0  # s, of models from files


def names_a_file(text: str) -> bool:
    """Whether a problem is meant to be a file."""
    return Path(text).suffix.lower() in SUFFIXES


def add_arguments(command: argparse.ArgumentParser) -> None:
    """What a model from a file takes."""
    group = command.add_argument_group("models from files (.urdf, .xml)")
    help_coordinates = "joints, minimal coordinates, by default; or bodies, with joints as constraints"
    group.add_argument("--coordinates", choices=("joints", "bodies"), default="joints", help=help_coordinates)
    group.add_argument("--floor", type=finite, metavar="Z", help="URDF: a floor at this height")
    group.add_argument("--position", type=finite, nargs=3, metavar="X", help="URDF: position of the base")
    group.add_argument("--keyframe", metavar="NAME", help="MJCF: the keyframe to begin with, by name or number")
    group.add_argument("--e-N", type=finite, default=0.0, metavar="X", help="restitution of all contacts, by default 0")
    group.add_argument("--contacts", choices=("all", "world", "none"), default="all", help="by default all")
    group.add_argument("--strict", action="store_true", help="fail where something of the file is not understood")


def read(path: str, options: argparse.Namespace) -> ns.Problem:
    """The problem of a file, with what `--param` changes."""
    shared = {name: getattr(options, name) for name in ("coordinates", "e_N", "contacts", "strict")}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ns.ModelFileWarning)
        if Source(path).root.tag == "robot":
            position = options.position or (0.0, 0.0, 0.0)
            mechanism = ns.from_urdf(path, floor=options.floor, position=position, **shared)
        else:
            key = options.keyframe
            mechanism = ns.from_mjcf(path, keyframe=int(key) if key and key.isdecimal() else key, **shared)
    for warning in caught:
        print(f"jaxns: {warning.message}", file=sys.stderr)
    problem = mechanism.problem(dt=DT, t1=T1)
    changes = dict(_change(text, mechanism.system) for text in options.param)
    return ns.Problem(
        mechanism.system.with_params(**changes), problem.q0, problem.u0, t1=T1, dt=DT, draw=mechanism.draw
    )


def _change(text: str, system: ns.System) -> tuple[str, float]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--param {text!r} must have the form name=value.")
    if name not in system.params:
        raise unknown("parameter", name, system.params)
    if system.params[name].ndim:
        raise UsageError(f"--param {name}: it has shape {system.params[name].shape}; numbers alone can be set here.")
    try:
        return name, finite(value)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"--param {name}: {error}.") from None


def show(options: argparse.Namespace) -> None:
    """A page with the initial state of a model, in the browser."""
    try:
        problem = read(options.file, options)
        page = options.out or Path(Path(options.file).stem + ".html")
        ns.animate(problem, still(problem), title=Path(options.file).name).save(page)
    except (OSError, ValueError) as error:
        raise UsageError(str(error)) from error
    print(f"wrote {page}")
    if not options.no_browser:
        webbrowser.open(page.absolute().as_uri())


def still(problem: ns.Problem) -> ns.Trajectory:
    """One second in which nothing happens."""
    system, q, u = problem.system, problem.q0, problem.u0
    rows = system.rows(jnp.zeros(()), q, u)
    f = max((d for _, d, _ in rows.groups), default=0)
    two, none, once = jnp.zeros((2, 1)), jnp.zeros(1, int), jnp.zeros(1)
    g, gamma, N = (jnp.zeros((2, n)) for n in (rows.n_g, rows.n_gamma, rows.n_N))
    return ns.Trajectory(
        jnp.arange(2.0), two + q, two + u, g, gamma, N, P_F=jnp.zeros((2, rows.n_N, f)),
        status=none, iterations=none, residual=once, stage_iterations=none[:, None], worst_row=none - 1,
    )  # fmt: skip
