"""Explorations: what they compute, the code that they write, and the page in a browser."""

from __future__ import annotations

import sys

import jax.numpy as jnp
import numpy as np
import pytest
from exploration import explored

import jaxns as ns
from jaxns.exploring.explore import explorer_of

FRAMES = 40
BALL = ns.models.bouncing_ball(omega=10.0)
TOY = ns.Mechanism(
    ns.Body("rod", mass=1.0, inertia=0.1, position=(0.5, 0.0), shape=ns.shapes.Box(1.0, 0.1)),
    ns.Body("floor", fixed=True, position=(0.0, -0.8), shape=ns.shapes.HalfSpace()),
    ns.Revolute("ground", "rod", at=(0.0, 0.0)),
    ns.Touch("rod", "floor", e_N=0.5, mu=0.1),
)


@pytest.fixture(scope="module")
def ball():
    arguments = dict(initial=["q[1]", "u[0]"], integrators=[ns.Moreau(), ns.Rattle()], frames=FRAMES, t1=1.0)
    return explorer_of(BALL, ["e_N", "mu"], name="BALL", **arguments)


@pytest.fixture(scope="module")
def toy():
    names = ["rod-floor.e_N", "rod.mass", "gravity[1]"]
    return explorer_of(TOY, names, initial=["rod.angle"], integrators=[ns.Moreau()], frames=FRAMES, name="TOY")


def test_sliders_move_what_they_are_named_after(ball):
    values = {**ball.start, "e_N": 0.9, "q[1]": 0.4, "u[0]": 0.0, "t1": 0.3}
    system, traj = ball.run(values)
    assert float(system.params["e_N"]) == 0.9
    assert float(system.params["mu"]) == float(BALL.system.params["mu"])
    assert float(traj.q[0, 1]) == 0.4
    assert traj.t.shape == (FRAMES + 1,)
    fall = traj.t < np.sqrt(2 * (0.4 - 0.1) / 9.81) - 0.02
    np.testing.assert_allclose(traj.q[fall, 1], 0.4 - 0.5 * 9.81 * traj.t[fall] ** 2, atol=1e-12)
    assert float(traj.t[-1]) == pytest.approx(0.3)


def test_all_runs_have_one_program_and_dt_is_at_most_that_of_its_slider(ball):
    for t1, dt in ((1.0, 1e-2), (0.31, 1e-3), (3.0, 1e-4)):
        integrator, h, steps, each = ball.steps({**ball.start, "t1": t1, "dt": dt})
        assert integrator == ns.Moreau()
        assert h <= dt * (1 + 1e-12)
        assert h * steps == pytest.approx(t1)
        assert steps == each * FRAMES


def test_initial_states_are_admissible(toy):
    _, traj = toy.run({**toy.start, "rod.angle": -0.7})
    x, y, angle = traj.q[0]
    np.testing.assert_allclose([x, y], [0.5 * jnp.cos(angle), 0.5 * jnp.sin(angle)], atol=1e-7)
    assert float(angle) < -0.1
    assert bool(traj.ok)


def test_the_code_makes_the_same_run(ball, toy):
    cases = [
        (ball, ball.start),
        (ball, {**ball.start, "e_N": 0.8, "q[1]": 0.7, "integrator": 1}),
        (toy, {**toy.start, "gravity[1]": -5.0, "rod.angle": -0.3, "t1": 0.5}),
    ]
    for explorer, values in cases:
        names = {"BALL": BALL, "TOY": TOY}
        exec(explorer.answer({"id": 1, "kind": "code", "values": values})[0]["code"], names)
        shown, again = explorer.run(values)[1], names["traj"]
        each = (len(again.t) - 1) // FRAMES
        np.testing.assert_allclose(again.q[::each], shown.q, atol=1e-9)
        assert [line for line in explorer.answer({"kind": "code", "values": values})[0]["code"].splitlines() if line]


def test_a_run_that_cannot_be_says_why(ball):
    reply, numbers = ball.answer({"id": 3, "kind": "picture", "values": {"e_N": float("nan")}})
    assert (reply["id"], reply["ok"], numbers) == (3, False, b"")
    assert "e_N" in reply["outcome"]


def test_numbers_of_a_picture_are_those_of_the_run(ball):
    values = {**ball.start, "mu": 0.3}
    reply, numbers = ball.answer({"id": 7, "kind": "picture", "values": values})
    assert (reply["id"], reply["ok"], reply["outcome"]) == (7, True, "all steps converged")
    film, floats = reply["film"], np.frombuffer(numbers, "<f4")
    system, traj = ball.run(values)
    for family, name, exact in (
        ("energy [J]", "total", ns.energy(system, traj).total),
        ("positions", "q[1]", traj.q[:, 1]),
        ("velocities", "u[0]", traj.u[:, 0]),
        ("gaps [m]", "gap 0", traj.q[:, 1] - system.params["R"]),
    ):
        at = next(curve["at"] for curve in film["curves"][family] if curve["name"] == name)
        np.testing.assert_allclose(floats[at : at + FRAMES + 1], exact, rtol=1e-6, atol=1e-6)
    assert len(numbers) < 200_000


def test_curves_of_a_mechanism_have_the_names_of_its_bodies(toy):
    curves = toy.answer({"kind": "picture"})[0]["film"]["curves"]
    assert [curve["name"] for curve in curves["positions"]] == ["rod.x", "rod.y", "rod.angle"]
    assert [curve["name"] for curve in curves["velocities"]] == ["rod.vx", "rod.vy", "rod.spin"]


def test_wrong_names_are_explained():
    with pytest.raises(ValueError, match=r"params has \['friction'\].*there are .*mu"):
        explorer_of(BALL, ["friction"])
    with pytest.raises(ValueError, match=r"initial has \['box.x'\].*q\[0\]"):
        explorer_of(BALL, initial=["box.x"])
    with pytest.raises(ValueError, match=r"low < high"):
        explorer_of(BALL, {"mu": (1.0, 0.0)})
    with pytest.raises(TypeError, match="a Problem or a Mechanism"):
        explorer_of(BALL.system)


def test_widget_answers_messages(ball, monkeypatch):
    pytest.importorskip("anywidget")
    view = ns.explore(BALL, ["e_N"], initial=["q[1]"], integrators=[ns.Moreau()], frames=FRAMES)
    sent = []
    monkeypatch.setattr(type(view), "send", lambda self, *message: sent.append(message))
    view._on_message(view, {"id": 1, "kind": "picture", "values": {"e_N": 0.25}}, [])
    view._on_message(view, {"id": 2, "kind": "code", "values": {"e_N": 0.25}}, [])
    (picture, (numbers,)), (code, _) = sent
    assert picture["film"]["frames"] == FRAMES + 1
    assert numbers
    assert view.values["e_N"] == 0.25
    assert view.code == code["code"]
    assert 'BALL.system.with_params(**{"e_N": 0.25})' in view.code  # the name of the variable here
    assert bool(view.trajectory.ok)
    assert {"settings", "values", "_esm", "_css"} <= set(view.get_state())


def test_without_anywidget_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.delitem(sys.modules, "jaxns.exploring.widget", raising=False)
    with pytest.raises(ImportError, match=r"jaxns-mechanics\[explore\]"):
        ns.explore(BALL)


DRIVE = """
  const before = pixels();
  find("e_N").dispatchEvent(new Event("focus"));
  let picture = next();
  move("e_N", 1.0);
  move("q[1]", 0.9);
  found.moved = [await picture, await next()]; // the second move waits for the first picture
  found.pixels = [before.length, changed(before, pixels())];
  found.times = [];
  for (let k = 0; k <= 10; k++) {
    picture = next();
    move("mu", k / 10);
    found.times.push((await picture).milliseconds);
  }
  picture = next();
  find("integrator").value = 1;
  find("integrator").dispatchEvent(new Event("change"));
  found.integrator = await picture;
  view.querySelectorAll("button")[0].click();
  while (view.querySelector("pre").hidden) await new Promise((done) => setTimeout(done, 20));
  found.code = view.querySelector("pre").textContent;
  found.shown = view.querySelector("output").textContent;
  found.curves = [...view.querySelectorAll("canvas")].map((c) => {
    const image = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
    return image.filter((value, i) => i % 4 === 3 && value > 0).length;
  });
  found.labels = [...view.querySelectorAll("input, select, canvas")].every((e) => e.getAttribute("aria-label"));
  picture = next();
  view.querySelectorAll("button")[1].click();
  found.reset = [await picture, find("e_N").value / find("e_N").max];
"""


def test_page_follows_its_sliders_in_a_browser(ball, tmp_path):
    found = explored(ball, tmp_path, DRIVE)
    assert found["complaints"] == []
    assert found["first"]["ok"]
    assert [picture["ok"] for picture in found["moved"]] == [True, True]
    assert found["moved"][1]["id"] == found["moved"][0]["id"] + 1
    assert found["pixels"][1] > 1000
    assert found["integrator"]["ok"]
    assert "ns.Rattle()" in found["code"]
    assert '"e_N": 1.0, "mu": 1.0' in found["code"]
    assert found["shown"] == "1"
    assert min(found["curves"]) > 500
    assert found["labels"]
    assert found["reset"][0]["ok"]
    assert found["reset"][1] == pytest.approx(float(BALL.system.params["e_N"]))
    print("slider to picture, in ms:", [round(t) for t in found["times"]])
