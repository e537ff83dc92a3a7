"""The command line: what it prints, the files it writes, and what it says about wrong usage."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from integrators import ALL

import jaxns
from jaxns.command_line import main as cli


def run(*arguments: str) -> int | str | None:
    """The exit code of `jaxns ARGUMENTS`."""
    try:
        return cli.main(arguments)
    except SystemExit as stop:  # argparse
        return stop.code


def test_list_names_all_problems_and_integrators(capsys):
    assert run("list") == 0
    output = capsys.readouterr().out
    for name in (*jaxns.models.__all__, *(p.id for p in ALL)):
        assert f"  {name}: " in output


def test_run_writes_figure_and_trajectory(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run("run", "bouncing-ball", "--t1", "0.2", "--plot", "f.png", "--save", "f.npz") == 0
    assert sorted(f.name for f in tmp_path.iterdir()) == ["f.npz", "f.png"]
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")
    with np.load(tmp_path / "f.npz") as saved:
        steps = len(saved["status"])
        assert np.all(saved["status"] == jaxns.Status.OK)
        assert saved["t"].shape == (steps + 1,)
        assert saved["q"].shape == saved["u"].shape == (steps + 1, 3)
        assert saved["t"][-1] == pytest.approx(0.2)
    output = capsys.readouterr().out
    assert f"{steps} of {steps} (100.0%)" in output


def test_converge_prints_errors_and_orders(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    steps = ("--t1", "0.4", "--dts", "0.02", "0.01", "--ref", "2e-3")
    assert run("converge", "mass-on-slope", "--integrator", "rattle:tol=1e-12", *steps, "--save", "c.npz") == 0
    assert sorted(f.name for f in tmp_path.iterdir()) == ["c.npz", "mass_on_slope_convergence.png"]
    with np.load(tmp_path / "c.npz") as saved:
        np.testing.assert_array_equal(saved["dts"], [0.01, 0.02])
        order = np.log2(saved["error_q_sum"][1] / saved["error_q_sum"][0])
        assert order == pytest.approx(2.0, abs=0.15)
    last = capsys.readouterr().out.split("order")[-1].split()
    assert float(last[0]) == pytest.approx(order, abs=0.01)


COUNTED = """
import sys
from collections import Counter
import jax
from jaxns.command_line import main as cli

counts = Counter()
jax.monitoring.register_event_listener(lambda event, **details: counts.update([event.rpartition("/")[2]]))
assert cli.main(sys.argv[1:]) == 0
print(*(counts[name] for name in ("compile_requests_use_cache", "cache_hits", "cache_misses")))
"""


def test_compiled_programs_are_found_again_in_the_cache(tmp_path):
    """The first process keeps all that it compiles, however quick that was; the second asks for the same programs."""
    environment = {**os.environ, "PYTHONPATH": str(Path(jaxns.__file__).parents[1])}
    command = [sys.executable, "-c", COUNTED, "run", "bouncing-ball", "--t1", "0.1", "--cache", "cache"]
    programs, asked = [], []
    for _ in range(2):
        done = subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
        requests, found, kept = map(int, done.stdout.splitlines()[-1].split())
        assert kept == requests - found
        programs.append({f.name for f in (tmp_path / "cache").glob("*-cache")})
        asked.append(requests)
    assert programs[0]
    assert programs[1] == programs[0]
    assert asked[1] == asked[0]


def test_times_of_a_run_add_up(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    jax.clear_caches()  # so that there is something to compile
    assert run("run", "bouncing-ball", "--integrator", "moreau", "--t1", "0.1") == 0
    line = re.search(r"wall time +([\d.]+) s: compilation ([\d.]+) s, run ([\d.]+) s", capsys.readouterr().out)
    wall, compilation, rest = map(float, line.groups())
    assert wall == pytest.approx(compilation + rest, abs=0.02)  # three rounded numbers
    assert 0.0 < compilation <= wall


def test_compilation_is_the_time_in_which_at_least_one_program_is_traced_or_compiled(rng):
    """Spans of JAX lie inside each other; here each millisecond is asked whether one of them holds it."""
    begins = rng.integers(-20, 120, 30)
    spans = [(begin, begin + length) for begin, length in zip(begins, rng.integers(0, 9, 30), strict=True)]
    held = [any(begin <= t < end for begin, end in spans) for t in range(100)]
    assert 10 < sum(held) < 90
    assert cli._covered(spans, 0, 100) == sum(held)
    assert cli._covered([], 0.0, 1.0) == 0.0


WRONG = {  # arguments, and what the message must say
    "problem": (["bouncing-bell"], "'bouncing_ball'"),
    "integrator": (["bouncing-ball", "--integrator", "ratle"], "'Rattle'"),
    "option of an integrator": (["bouncing-ball", "--integrator", "lobatto:stage=4"], "'stages'"),
    "value of an option": (["bouncing-ball", "--integrator", "lobatto:stages=2.5"], "must be a whole number"),
    "impossible option": (["bouncing-ball", "--integrator", "lobatto:stages=1"], "at least 2"),
    "truth of an option": (["bouncing-ball", "--integrator", "gglunified:velocity_only=yes"], "true or false"),
    "parameter": (["bouncing-ball", "--param", "e_n=0.3"], "'e_N'"),
    "value of a parameter": (["bouncing-ball", "--param", "e_N=much"], "'much' is not a finite number"),
    "parameter without value": (["bouncing-ball", "--param", "e_N"], "name=value"),
    "end time": (["bouncing-ball", "--t1", "late"], "'late' is not a finite number"),
    "negative step size": (["bouncing-ball", "--dt", "-1"], "must be positive"),
    "infinite step size": (["bouncing-ball", "--dt", "inf"], "'inf' is not a finite number"),
    "folder": (["bouncing-ball", "--save", "nowhere/f.npz"], "no folder nowhere"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_usage_exits_with_2_and_says_what_is_meant(what, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    arguments, message = WRONG[what]
    assert run("run", *arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""
    assert not list(tmp_path.iterdir())


PENDULUM = (
    '<mujoco><worldbody><body name="rod"><joint name="pivot" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0.4 0 0" '
    'size="0.02"/></body></worldbody><keyframe><key name="up" qpos="-1"/></keyframe></mujoco>'
)


def test_run_and_show_of_a_model_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rod.xml").write_text(PENDULUM)
    files = ("--animate", "film.html", "--save", "rod.npz")
    assert run("run", "rod.xml", "--integrator", "moreau", "--t1", "0.1", "--param", "rod.mass=2", *files) == 0
    with np.load("rod.npz") as saved:
        assert saved["q"].shape == (101, 1)
    assert run("show", "rod.xml", "--keyframe", "up", "--no-browser") == 0
    assert {"film.html", "rod.html", "rod.png"} <= {f.name for f in tmp_path.iterdir()}
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert run("show", "rod.xml", "--out", "page.html") == 0
    assert opened == [(tmp_path / "page.html").as_uri()]
    capsys.readouterr()
    for arguments, what in (
        (("run", "none.xml"), "none.xml: it cannot be read"),
        (("run", "rod.xml", "--param", "rod.mas=2"), "unknown parameter 'rod.mas'; did you mean 'rod.mass'?"),
        (("show", "rod.xml", "--keyframe", "down"), "there is none 'down'; there are 'up'"),
    ):
        assert run(*arguments) == 2
        assert what in capsys.readouterr().err
