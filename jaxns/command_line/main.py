"""The command line: `jaxns list`, `run PROBLEM`, `show FILE`, `converge PROBLEM`, `identify PROBLEM` and `reproduce`."""

from __future__ import annotations

import argparse
import gc
import importlib.util
import inspect
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax import Array

import jaxns as ns

from ..analysis.convergence import NORMS, QUANTITIES
from ..host.cache import VARIABLE, no_cache
from ..pictures.animate import check_format
from ..simulation.files import arrays
from . import identify as cli_identify
from . import model_files
from . import records as cli_records
from .choice import UsageError, defaults, integrators, positive, problems, unknown
from .chosen import Chosen

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0 for success, 1 for a failed simulation, 2 for wrong usage."""
    options = _parser().parse_args(arguments)
    jax.config.update("jax_enable_x64", True)
    gc.set_threshold(200_000, 50, 50)  # a trace is many objects that live long: visiting them takes a third of its time
    if getattr(options, "no_cache", False):
        no_cache()
    elif hasattr(options, "cache"):
        ns.cache(options.cache)
    try:
        options.command(options)
    except ns.SimulationError as error:
        return _complain(f"simulation failed: {error}", 1)
    except UsageError as error:
        return _complain(str(error), 2)
    return 0


def _complain(message: str, code: int) -> int:
    print(f"jaxns: error: {message}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="jaxns", description=ns.__doc__)
    parser.add_argument("--version", action="version", version=f"jaxns {ns.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="problems and integrators with their parameters")
    listing.set_defaults(command=_list)
    run = commands.add_parser("run", help="simulate a problem, print a summary, save a figure")
    run.set_defaults(command=_run)
    _common(run, "PROBLEM.png", "the trajectory")
    run.add_argument("--dt", type=positive, metavar="X", help="step size in s, by default the problem's own")
    help_animate = "write an animation: .html, .gif or .mp4"
    run.add_argument("--animate", type=Path, metavar="FILE", help=help_animate)
    run.add_argument("--no-progress", action="store_true", help="no progress bar in long runs")
    show = commands.add_parser("show", help="a page of a model from a file, in its initial state, in the browser")
    show.set_defaults(command=model_files.show)
    show.add_argument("file", metavar="FILE", help="a URDF or MJCF file")
    show.add_argument("--out", type=Path, metavar="PAGE.html", help="by default FILE.html in this folder")
    show.add_argument("--no-browser", action="store_true", help="write the page alone")
    show.add_argument("--param", nargs="+", action="extend", default=[], metavar="K=V", help="physical parameters")
    model_files.add_arguments(show)
    converge = commands.add_parser("converge", help="errors over step sizes, fitted orders, and their figure")
    converge.set_defaults(command=_converge)
    _common(converge, "PROBLEM_convergence.png", "the errors")
    converge.add_argument("--dts", type=positive, nargs="+", required=True, metavar="X", help="step sizes in s")
    converge.add_argument("--ref", type=positive, required=True, metavar="X", help="step size of the reference run")
    converge.add_argument("--norm", choices=NORMS, default="sum", help="of the printed errors, by default sum")
    identify = commands.add_parser("identify", help="fit parameters to a measured record, with standard errors")
    identify.set_defaults(command=_identify)
    _common(identify, "PROBLEM_fit.png", "parameters, covariance and the fitted columns", "EventDriven")
    help_data = (
        "CSV with a first line of names (t, q1, q2, …, u1, …), what `jaxns run --save` wrote, or a folder of CSV files"
    )
    identify.add_argument("--data", type=Path, required=True, metavar="FILE", help=help_data)
    cli_records.add_arguments(identify)
    identify.add_argument(
        "--fit", required=True, metavar="A,B", help="parameters to fit; --param sets where they start"
    )
    identify.add_argument("--bounds", nargs="+", default=[], metavar="K=LO:HI", help="bounds; one side may be empty")
    identify.add_argument("--columns", metavar="A,B", help="columns to fit, by default all of q and u in the record")
    identify.add_argument("--starts", type=int, default=1, metavar="N", help="random starts besides the first one")
    identify.add_argument("--dt", type=positive, metavar="X", help="step of a fixed-step integrator, in s")
    identify.add_argument(
        "--report", type=Path, metavar="FILE.txt", help="write the report there, too; .html for a folder"
    )
    reproduce = commands.add_parser("reproduce", help="run the experiments of the papers, write an HTML report")
    reproduce.set_defaults(command=_reproduce)
    help_only = "these experiments only; a part of a name stands for all that contain it"
    reproduce.add_argument("--only", nargs="+", default=[], metavar="NAME", help=help_only)
    reproduce.add_argument("--out", type=Path, default=Path("reproduction"), metavar="DIR", help="for index.html")
    reproduce.add_argument("--list", action="store_true", help="names of all experiments, nothing else")
    _cache(reproduce)
    return parser


def _common(command: argparse.ArgumentParser, figure: str, saved: str, integrator: str = "Rattle") -> None:
    """Arguments of every command that simulates."""
    command.add_argument(
        "problem", metavar="PROBLEM", help="a name from `jaxns list`, such as slider-crank, or a URDF or MJCF file"
    )
    model_files.add_arguments(command)
    help_integrator = f"by default {integrator}; with options as in lobatto:stages=4,tol=1e-12"
    command.add_argument("--integrator", default=integrator, metavar="NAME[:K=V,…]", help=help_integrator)
    command.add_argument("--t1", type=positive, metavar="X", help="end time in s, by default the problem's own")
    command.add_argument("--param", nargs="+", action="extend", default=[], metavar="K=V", help="physical parameters")
    command.add_argument(
        "--plot", type=Path, metavar="FILE", help=f"figure; by default {figure} if matplotlib is there"
    )
    command.add_argument("--save", type=Path, metavar="FILE.npz", help=f"write {saved}")
    _cache(command)


def _cache(command: argparse.ArgumentParser) -> None:
    where = command.add_mutually_exclusive_group()
    help_cache = f"for compiled programs, by default that of {VARIABLE}, or `jaxns` in your cache folder"
    where.add_argument("--cache", type=Path, metavar="DIR", help=help_cache)
    where.add_argument("--no-cache", action="store_true", help="keep no compiled programs, and use none")


def _list(options: argparse.Namespace) -> None:
    for title, entries in (("Problems", problems()), ("Integrators", integrators())):
        print(title)
        for name, entry in entries.items():
            summary = (inspect.getdoc(entry) or "").split("\n", 1)[0]
            print(f"  {name}: {summary}")
            print("      " + ", ".join(f"{k}={v}" for k, v in defaults(entry).items()))


@dataclass(frozen=True)
class _Result:
    """A trajectory, finished or not, and how long it took."""

    trajectory: ns.Trajectory
    wall: float  # s
    compilation: float  # s, part of wall; the rest is the run
    failure: ns.SimulationError | None


def _run(options: argparse.Namespace) -> None:
    _check_files(options)
    try:
        chosen = Chosen.by(options)
        dt = options.dt or chosen.problem.dt
        result = _simulate(chosen.problem, chosen.integrator, dt, chosen.t1, options.no_progress)
    except ValueError as error:
        raise UsageError(str(error)) from error
    system, traj = chosen.problem.system, result.trajectory
    _print_table([*chosen.settings(options), ("dt", f"{dt:g} s"), *_report(system, result)])
    title = f"{chosen.name}, {type(chosen.integrator).__name__}"
    _write(options, f"{chosen.name}.png", arrays(traj), lambda plot: plot.trajectory(system, traj, title=title))
    if options.animate and int(traj.status[0]) == ns.Status.OK:  # else there is nothing to show
        _animate(options.animate, chosen.problem, traj, title)
    if result.failure is not None:
        raise result.failure


def _animate(path: Path, problem: ns.Problem, traj: ns.Trajectory, title: str) -> None:
    try:
        ns.animate(problem, traj, title=title).save(path)
    except OSError as error:  # a folder without permission
        raise UsageError(f"cannot write {path}: {error}") from error
    print(f"wrote {path}")


def _converge(options: argparse.Namespace) -> None:
    _check_files(options)
    try:
        chosen = Chosen.by(options)
        p = chosen.problem
        dts = sorted(options.dts)
        study = ns.convergence_study(
            p.system, chosen.integrator, p.q0, p.u0, t1=chosen.t1, dts=dts, dt_ref=options.ref, norm=options.norm,
            throw=False,
        )  # fmt: skip
    except ValueError as error:
        raise UsageError(str(error)) from error
    _print_table([*chosen.settings(options), ("reference dt", f"{options.ref:g} s"), ("norm", options.norm)])
    shown = [name for name in QUANTITIES if bool(np.any(np.asarray(study.error(name)) > 0.0))]
    print("".join(f"{name:>12}" for name in ("dt", *shown)))
    for k, dt in enumerate(dts):
        print(f"{dt:12.4e}" + "".join(f"{float(study.error(name)[k]):12.4e}" for name in shown))
    print(f"{'order':>12}" + "".join(f"{float(study.order(name)):12.2f}" for name in shown))
    arrays = {"dts": study.dts, "ok": study.ok}
    arrays |= {f"error_{x}_{norm}": e for norm, errors in study.errors.items() for x, e in errors.items()}
    label = type(chosen.integrator).__name__
    figure_file = f"{chosen.name}_convergence.png"
    _write(options, figure_file, arrays, lambda plot: plot.convergence({label: study}, title=chosen.name))
    if not bool(np.all(study.ok)):
        failed = ", ".join(f"{dt:g}" for dt, ok in zip(dts, study.ok, strict=True) if not ok)
        raise ns.SimulationError(f"the runs with dt = {failed} did not converge")


def _identify(options: argparse.Namespace) -> None:
    _check_files(options)
    if options.data.is_dir():
        return cli_records.run(options)
    try:
        chosen = Chosen.by(options)
        fit, t, data, prediction = cli_identify.identify(
            chosen.problem, chosen.integrator, cli_identify.read_record(options.data), fit=options.fit.split(","),
            bounds=options.bounds, columns=options.columns.split(",") if options.columns else None, dt=options.dt,
            num_starts=options.starts,
        )  # fmt: skip
    except (ValueError, OSError, ns.IdentificationError) as error:
        raise UsageError(str(error)) from error
    report = "\n".join([*(f"{name}: {value}" for name, value in chosen.settings(options)), str(fit)])
    print(report)
    if options.report:
        options.report.write_text(report + "\n")
    arrays = {"covariance": fit.covariance, "loss": fit.loss, **{f"fit_{k}": v for k, v in fit.params.items()}}
    arrays |= {"t": t, **{f"data_{k}": v for k, v in data.items()}, **{f"fitted_{k}": v for k, v in prediction.items()}}
    title = f"{chosen.name}: {', '.join(f'{k} = {float(v):.4g}' for k, v in fit.params.items())}"
    _write(options, f"{chosen.name}_fit.png", arrays, lambda plot: plot.fit(t, data, prediction, title=title))


def _reproduce(options: argparse.Namespace) -> None:
    if not _has_matplotlib():
        raise UsageError("jaxns reproduce needs matplotlib: pip install 'jaxns-mechanics[plot]'")
    from .. import reproduce

    if options.list:
        for e in reproduce.EXPERIMENTS.values():
            print(f"{e.name}: {e.title} ({e.paper}, {e.section})")
        return
    for name in options.only:
        if not any(name in known for known in reproduce.EXPERIMENTS):
            raise unknown("experiment", name, reproduce.EXPERIMENTS)
    wanted = options.only or [""]
    chosen = [e for name, e in reproduce.EXPERIMENTS.items() if any(part in name for part in wanted)]
    report = reproduce.reproduce(chosen, options.out)
    for row in report.rows():
        print(f"{reproduce.VERDICTS[row['holds']]:>13}  {row['experiment']}: {row['statement']} | {row['ours']}")
    print(f"{report.count(True)} statements hold, {report.count(False)} do not")
    print(f"wrote {options.out / 'index.html'}")
    if report.failed:
        raise ns.SimulationError(f"experiments broke off: {', '.join(report.failed)}; the report says where")


def _check_files(options: argparse.Namespace) -> None:
    """Complain before the run, not after it."""
    animation = getattr(options, "animate", None)
    for path in filter(None, (options.plot, options.save, animation)):
        if not path.absolute().parent.is_dir():
            raise UsageError(f"cannot write {path}: there is no folder {path.parent}.")
    if animation:
        try:
            check_format(animation)
        except (ValueError, ImportError) as error:
            raise UsageError(f"--animate: {error}") from error
    if options.plot and not _has_matplotlib():
        raise UsageError("--plot needs matplotlib: pip install 'jaxns-mechanics[plot]'")


def _simulate(problem: ns.Problem, integrator: Any, dt: float, t1: float, quiet: bool) -> _Result:
    failure = None
    progress = False if quiet else None  # by itself, in long runs
    with _compiling() as spans:
        start = time.perf_counter()
        try:
            traj = ns.simulate(problem.system, integrator, problem.q0, problem.u0, dt=dt, t1=t1, progress=progress)
        except ns.SimulationError as error:
            assert error.trajectory is not None  # it is there for a single run
            traj, failure = error.trajectory, error
        jax.block_until_ready(traj)
        end = time.perf_counter()
    return _Result(traj, end - start, _covered(spans, start, end), failure)


@contextmanager
def _compiling() -> Iterator[list[tuple[float, float]]]:
    """Collects when JAX traces, lowers and compiles; these spans may lie inside each other."""
    spans: list[tuple[float, float]] = []

    def listen(event: str, duration_secs: float, **kwargs: str | int) -> None:
        if event.startswith("/jax/core/compile/"):
            now = time.perf_counter()
            spans.append((now - duration_secs, now))

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield spans
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def _covered(spans: Sequence[tuple[float, float]], start: float, end: float) -> float:
    """How much of the time from start to end lies in at least one of the spans."""
    total, reached = 0.0, start
    for begin, stop in sorted(spans):
        total += max(min(stop, end) - max(begin, reached), 0.0)
        reached = max(reached, stop)
    return total


def _report(system: ns.System, result: _Result) -> list[tuple[str, str]]:
    """The lines of the summary that depend on the outcome."""
    traj = result.trajectory
    status = np.asarray(traj.status)
    steps, converged = len(status), int(np.sum(status == ns.Status.OK))
    run = result.wall - result.compilation
    lines = [
        ("steps", f"{steps}"),
        ("converged", f"{converged} of {steps} ({converged / steps:.1%})"),
        ("wall time", f"{result.wall:.2f} s: compilation {result.compilation:.2f} s, run {run:.2f} s"),
    ]
    ran = np.asarray(traj.stage_iterations)[status != ns.Status.STOPPED]
    names = [f"Newton iterations, solve {k}" for k in range(1, ran.shape[1] + 1)]
    if traj.effort is not None:
        names = ["trial steps in a row", "Newton iterations of events"]
        lines.append(("steps of the integrator", f"{int(traj.effort.accepted.sum())}"))
    for name, iterations in zip(names, ran.T, strict=True):
        lines.append((name, f"mean {iterations.mean():.2f}, max {iterations.max()}"))
    if traj.events is not None:
        kinds = Counter(ns.EventKind(int(k)).name for k in traj.events.kind)
        lines.append(("events", ", ".join(f"{n} {name}" for name, n in kinds.items()) or "none"))
    g, g_dot, g_N, total = (np.asarray(v) for v in _measures(system, traj))
    if g.size:
        lines += [("max |g|", f"{np.abs(g).max():.3e}"), ("max |ġ|", f"{np.abs(g_dot).max():.3e}")]
    if g_N.size:
        lines.append(("min g_N", f"{g_N.min():.3e} m"))
        gains = ns.impact_gains(system, traj)
        impacts, largest = int(gains.impact.sum()), float(gains.gain.max(initial=0.0))
        lines.append(("impacts that raise the energy", f"{int(gains.number)} of {impacts}, by {largest:.3g} J at most"))
    return [*lines, ("energy at start, end", f"{total[0]:.6g} J, {total[-1]:.6g} J")]


@jax.jit
def _measures(system: ns.System, traj: ns.Trajectory) -> tuple[Array, Array, Array, Array]:
    """g, ġ, g_N and the total energy at each row."""
    g = jax.vmap(system.g)(traj.t, traj.q)
    g_dot = jax.vmap(system.g_dot)(traj.t, traj.q, traj.u)
    return g, g_dot, jax.vmap(system.g_N)(traj.t, traj.q), ns.energy(system, traj).total


def _print_table(lines: Sequence[tuple[str, str]]) -> None:
    width = max(len(name) for name, _ in lines)
    for name, value in lines:
        print(f"{name:<{width}}  {value}")


def _write(
    options: argparse.Namespace, figure_name: str, arrays: dict[str, Any], draw: Callable[[Any], Figure]
) -> None:
    """The files that were asked for, and the figure."""
    figure_file = options.plot or Path(figure_name)
    try:
        if options.save:
            saved: dict[str, Any] = {name: np.asarray(value) for name, value in arrays.items()}
            np.savez(options.save, **saved)
            print(f"wrote {options.save}")
        if _has_matplotlib():
            from .. import plot

            draw(plot).savefig(figure_file)
            print(f"wrote {figure_file}")
        else:
            print("no figure: plots need matplotlib: pip install 'jaxns-mechanics[plot]'")
    except (OSError, ValueError) as error:  # a folder without permission, or an unknown file format
        raise UsageError(f"cannot write: {error}") from error


def _has_matplotlib() -> bool:
    return importlib.util.find_spec("matplotlib") is not None


if __name__ == "__main__":
    sys.exit(main())
