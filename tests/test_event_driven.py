"""Event-driven integration against closed forms: instants, impacts, rest, stick and slip, edges."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from reference_motions import Belt, bounces, rk4, slope_motion

import jaxns as ns
from jaxns.laws.sets import contensou_boundary

EVENT = ns.EventDriven()
Kind = ns.EventKind


def _e(p):
    return p["e"]


def _mu(p):
    return p["mu"]


def kinds(traj):
    return [Kind(int(k)) for k in traj.events.kind]


# Ball ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ball():
    problem = ns.models.bouncing_ball(e_N=0.5)
    return ns.simulate(problem.system, EVENT, problem.q0, problem.u0, dt=0.1, t1=2.0)


def test_instants_of_ten_impacts(ball):
    times, speeds = bounces(0.9, 0.0, 0.5, 9.81, 10)
    np.testing.assert_allclose(ball.events.t[:10], times, rtol=0, atol=1e-10)
    np.testing.assert_allclose(ball.events.after[:10, 0], speeds, atol=1e-9)
    np.testing.assert_allclose(ball.events.before[:10, 0], -2.0 * np.array(speeds), atol=1e-9)
    assert kinds(ball)[:10] == 10 * [Kind.IMPACT]


def test_rows_between_impacts(ball):
    times, speeds = bounces(0.9, 0.0, 0.5, 9.81, 30)
    for t, y in zip(np.asarray(ball.t[5:12]), np.asarray(ball.q[5:12, 1]), strict=True):
        n = np.searchsorted(times, t) - 1
        tau = t - times[n]
        assert y == pytest.approx(0.1 + speeds[n] * tau - 0.5 * 9.81 * tau**2, abs=1e-10)


def test_zeno_ends_and_the_ball_rests(ball):
    """Flights are a geometric series: the end is at t_1 (1 + e) / (1 − e)."""
    end = np.sqrt(2 * 0.9 / 9.81) * (1 + 0.5) / (1 - 0.5)
    assert kinds(ball)[-1] == Kind.REST
    assert float(ball.events.t[-1]) == pytest.approx(end, abs=1e-6)
    late = np.asarray(ball.t) > end
    np.testing.assert_allclose(ball.q[late, 1], 0.1, atol=1e-12)
    np.testing.assert_allclose(ball.u[late, 1], 0.0, atol=1e-12)
    np.testing.assert_allclose(ball.P_N[late][1:, 0], 9.81 * 0.1, rtol=1e-10)  # it carries its weight
    assert float(ball.P_N.sum()) == pytest.approx(9.81 * 2.0, rel=1e-9)


def test_a_log_that_is_full_stops_no_run():
    problem = ns.models.bouncing_ball(e_N=0.5)
    traj = ns.simulate(problem.system, ns.EventDriven(max_events=4), problem.q0, problem.u0, dt=0.1, t1=2.0)
    assert traj.events.t.shape == (4,)
    assert int(traj.events.count) == 23


def test_too_few_steps_are_reported():
    problem = ns.models.bouncing_ball(e_N=0.5)
    with pytest.raises(ns.SimulationError, match="max_steps"):
        ns.simulate(problem.system, ns.EventDriven(max_steps=5), problem.q0, problem.u0, dt=0.1, t1=2.0)


# Several contacts ---------------------------------------------------------------------------------------------------


def _two_masses(t, q, p):
    return jnp.diag(jnp.stack([p["m1"], p["m2"]]))


def _wall_and_each_other(t, q, p):
    return jnp.stack([q[0], q[1] - q[0]])


def test_two_balls_and_a_wall():
    """No forces: straight flights between impacts; the collisions are computed one by one."""
    m1, m2, e = 1.0, 3.0, 0.8
    contacts = ns.Contacts(_wall_and_each_other, e_N=_e)
    system = ns.System({"m1": m1, "m2": m2, "e": e}, _two_masses, contacts=contacts)
    q, u = np.array([1.0, 2.0]), np.array([-1.0, -1.5])
    traj = ns.simulate(system, EVENT, q, u, dt=0.25, t1=5.0)
    t, end, expected = 0.0, 5.0, []
    while True:
        wall = q[0] / -u[0] if u[0] < 0 else np.inf
        each = (q[1] - q[0]) / (u[0] - u[1]) if u[0] > u[1] + 1e-12 else np.inf
        wall, each = (x if x > 1e-12 else np.inf for x in (wall, each))
        step = min(wall, each, end - t)
        q, t = q + step * u, t + step
        if t >= end:
            break
        if wall < each:
            u = np.array([-e * u[0], u[1]])
        else:
            P = (1 + e) * (u[0] - u[1]) / (1 / m1 + 1 / m2)
            u = u + np.array([-P / m1, P / m2])
        expected.append((t, 0 if wall < each else 1))
    assert len(expected) >= 3
    np.testing.assert_allclose(traj.events.t, [t for t, _ in expected], atol=1e-11)
    assert [int(c) for c in traj.events.contact] == [c for _, c in expected]
    np.testing.assert_allclose(traj.events.after[:, 0], -e * traj.events.before[:, 0], atol=1e-12)
    np.testing.assert_allclose(traj.q[-1], q, atol=1e-10)
    np.testing.assert_allclose(traj.u[-1], u, atol=1e-11)


def _unit_mass(t, q, p):
    return jnp.eye(q.shape[0])


def _box(t, q, p):
    return jnp.concatenate([q, 1.0 - q])


def test_a_ball_between_walls_and_in_a_corner():
    """Three coordinates between two walls each: instants in closed form; three contacts close at once in the corner."""
    e = 0.9
    system = ns.System({"e": e}, _unit_mass, contacts=ns.Contacts(_box, e_N=_e))
    q0, u0 = jnp.array([0.5, 0.5, 0.5]), jnp.array([-1.0, -1.0, -1.0])
    traj = ns.simulate(system, EVENT, q0, u0, dt=0.5, num_steps=8)
    crossings, v, t = [], 1.0, 0.5
    while t < 4.0:
        crossings.append(t)
        v *= e
        t += 1.0 / v
    np.testing.assert_allclose(traj.events.t, np.repeat(crossings, 3), atol=1e-11)
    assert sorted(int(c) for c in traj.events.contact[:3]) == [0, 1, 2]
    assert sorted(int(c) for c in traj.events.contact[3:6]) == [3, 4, 5]
    np.testing.assert_allclose(np.abs(traj.u[-1]), v, atol=1e-12)
    apart = ns.simulate(system, EVENT, q0, jnp.array([-1.0, 0.7, 0.45]), dt=0.5, num_steps=8)
    assert len({float(t) for t in apart.events.t}) == len(apart.events.t)
    np.testing.assert_allclose(apart.events.after[:, 0], -e * apart.events.before[:, 0], atol=1e-12)


def _plank_mass(t, q, p):
    return jnp.diag(jnp.array([1.0, 1.0 / 3.0]))


def _plank_weight(t, q, p):
    return p["gravity"] * q[0]


def _three_points(t, q, p):
    return q[0] + jnp.array([-1.0, 0.0, 1.0]) * jnp.sin(q[1])


@pytest.mark.parametrize("e", [0.0, 0.6])
def test_three_redundant_contacts_at_once(e):
    """A plank falls flat on three points: it rebounds flat with e, and its percussions are its change of momentum."""
    params = {"e": e, "gravity": 9.81}
    system = ns.System(params, _plank_mass, potential=_plank_weight, contacts=ns.Contacts(_three_points, e_N=_e))
    traj = ns.simulate(system, EVENT, jnp.array([0.5, 0.0]), jnp.zeros(2), dt=0.1, num_steps=4)
    hit, v = np.sqrt(2 * 0.5 / 9.81), np.sqrt(2 * 9.81 * 0.5)
    np.testing.assert_allclose(traj.events.t[:3], hit, atol=1e-12)
    np.testing.assert_allclose(traj.events.after[:3, 0], e * v, atol=1e-12)
    tau = 0.4 - hit
    height = e * v * tau - 0.5 * 9.81 * tau**2 if e else 0.0
    np.testing.assert_allclose(traj.q[-1], [height, 0.0], atol=1e-10)
    change = float(traj.u[-1, 0] - traj.u[0, 0])
    assert float(traj.P_N.sum()) == pytest.approx(change + 9.81 * 0.4, abs=1e-9)


# Friction -----------------------------------------------------------------------------------------------------------


def _belt_weight(t, q, p):
    return p["gravity"] * q[1] + 0.5 * p["k"] * q[0] ** 2


def _height(t, q, p):
    return q[1:2]


def _belt_slip(t, q, u, p):
    return (u[:1] - p["v0"] * (1.0 + p["a"] * jnp.sin(p["Omega"] * t)))[:, None]


def test_stick_slip_oscillator_on_a_belt():
    params = {"k": 100.0, "mu": 0.4, "gravity": 9.81, "v0": 0.3, "a": 0.8, "Omega": 7.0}
    contacts = ns.Contacts(_height, _belt_slip, mu=_mu)
    system = ns.System(params, _unit_mass, potential=_belt_weight, contacts=contacts)
    traj = ns.simulate(system, EVENT, jnp.array([0.3, 0.0]), jnp.zeros(2), dt=0.1, num_steps=30)
    x, events = Belt(**params).run(0.3, 0.0, np.asarray(traj.t))
    names = {"stick": Kind.STICK, "slip": Kind.SLIP, "reverse": Kind.REVERSE}
    assert {n for _, n in events} == set(names)
    assert kinds(traj) == [names[n] for _, n in events]
    np.testing.assert_allclose(traj.events.t, [t for t, _ in events], rtol=0, atol=3e-8)
    np.testing.assert_allclose(traj.q[:, 0], x, rtol=0, atol=1e-8)


@pytest.mark.parametrize("case", [1, 2, 3, 4])
def test_mass_on_slope(case):
    problem = ns.models.mass_on_slope(case=case)
    traj = ns.simulate(problem.system, EVENT, problem.q0, problem.u0, dt=0.1, num_steps=32)
    path, stops = slope_motion(case, np.asarray(traj.t))
    np.testing.assert_allclose(traj.q, path, rtol=0, atol=1e-8)
    expected = {1: [Kind.STICK], 2: [Kind.STICK], 3: [Kind.REVERSE, Kind.STICK], 4: [Kind.IMPACT, Kind.STICK]}[case]
    assert kinds(traj) == expected
    np.testing.assert_allclose(traj.events.t[-len(stops) :], stops, rtol=0, atol=1e-8)


def _slide_weight(t, q, p):
    return p["gravity"] * q[2]


def _height_3d(t, q, p):
    return q[2:]


def _slip_3d(t, q, u, p):
    return u[None, :2]


def _push(t, q, u, p):
    return jnp.array([0.0, 1.0, 0.0]) * p["F"] * jnp.maximum(t - 0.5, 0.0)


def test_spatial_friction_slides_straight_sticks_and_starts_again():
    """Without a force the direction stays: it stops at v/(μg). Then a force along y grows until it breaks the contact."""
    params = {"mu": 0.3, "gravity": 9.81, "F": 10.0}
    contacts = ns.Contacts(_height_3d, _slip_3d, mu=_mu)
    system = ns.System(params, _unit_mass, potential=_slide_weight, force=_push, contacts=contacts)
    traj = ns.simulate(system, EVENT, jnp.zeros(3), jnp.array([0.6, 0.8, 0.0]), dt=0.1, num_steps=10)
    a = 0.3 * 9.81
    assert kinds(traj) == [Kind.STICK, Kind.SLIP]
    np.testing.assert_allclose(traj.events.t, [1.0 / a, 0.5 + a / 10.0], atol=3e-8)
    tau = 1.0 - float(traj.events.t[1])
    stop = np.array([0.6, 0.8, 0.0]) / (2 * a)
    np.testing.assert_allclose(traj.q[-1], stop + np.array([0.0, 10.0 * tau**3 / 6.0, 0.0]), atol=1e-7)


def _turning(t, q, u, p):
    weight = 9.81 * (1.0 + 0.3 * jnp.sin(2.0 * t))
    return jnp.stack([p["F"] * jnp.sin(3.0 * t), 0.5 * p["F"] * jnp.sin(3.0 * t + 0.4), -weight])


def test_spatial_sliding_begins_under_a_turning_force():
    """Against RATTLE with two step sizes, extrapolated to zero."""
    contacts = ns.Contacts(_height_3d, _slip_3d, mu=_mu)
    system = ns.System({"mu": 0.3, "F": 6.0}, _unit_mass, force=_turning, contacts=contacts)
    traj = ns.simulate(system, EVENT, jnp.zeros(3), jnp.zeros(3), dt=0.25, num_steps=8)
    assert kinds(traj) == [Kind.SLIP]
    coarse, fine = (
        ns.simulate(system, ns.Rattle(), jnp.zeros(3), jnp.zeros(3), dt=2.0 / n, num_steps=n).q[-1]
        for n in (4000, 8000)
    )
    np.testing.assert_allclose(traj.q[-1], 2.0 * fine - coarse, atol=2e-5)


def _shaking(t, q, u, p):
    return jnp.stack([6.0 * jnp.sin(2.0 * jnp.pi * t), -9.81 * jnp.ones_like(t)])


def _slip_x(t, q, u, p):
    return u[:1][None]


def test_coarse_rows_miss_no_slip():
    """A block at rest has no error that would keep steps short; the stages see that its friction cannot hold."""
    contacts = ns.Contacts(_height, _slip_x, mu=_mu)
    system = ns.System({"mu": 0.3}, _unit_mass, force=_shaking, contacts=contacts)
    coarse, fine = (ns.simulate(system, EVENT, jnp.zeros(2), jnp.zeros(2), dt=2.0 / n, num_steps=n) for n in (2, 50))
    slips = np.arcsin(0.3 * 9.81 / 6.0) / (2.0 * np.pi)
    assert float(coarse.events.t[0]) == pytest.approx(slips, abs=1e-9)
    assert kinds(coarse) == kinds(fine)
    np.testing.assert_allclose(coarse.q[-1], fine.q[-1], atol=1e-8)


# Edges --------------------------------------------------------------------------------------------------------------


def edge_reference(speed, times):
    """x along the ground: straight for x < 0, then (1 + 4x²) ẍ + 4x ẋ² + 2 g x = 0 on the parabola."""

    def rates(t, y):
        return np.array([y[1], -(4 * y[0] * y[1] ** 2 + 2 * 9.81 * y[0]) / (1 + 4 * y[0] ** 2)])

    arrival = 0.5 / speed
    y, t, path = np.array([0.0, speed]), arrival, []
    for wanted in times:
        if wanted <= arrival:
            path.append(-0.5 + speed * wanted)
            continue
        n = 200
        h = (wanted - t) / n
        for _ in range(n):
            y = rk4(rates, y, 0.0, h)
        t = wanted
        path.append(y[0])
    return np.array(path)


def edge_run(edges, speed, **options):
    problem = ns.models.edge_sphere()
    u0 = problem.u0 * speed
    return ns.simulate(problem.system, ns.EventDriven(edges=edges), problem.q0, u0, dt=0.1, num_steps=7, **options)


def test_an_edge_fails_without_a_remedy():
    traj = edge_run("none", 1.3, throw=False)
    assert not bool(traj.ok)
    assert float(traj.q[-1, 0]) < 0.0  # it does not pass


@pytest.mark.parametrize("speed", [1.0, 1.3])  # one arrives at the edge with a row, the other between two
@pytest.mark.parametrize("edges", ["lcp", "nscd"])
def test_remedies_pass_the_edge(edges, speed):
    """The path, and so the acceleration 2ẋ² upwards that the parabola asks for."""
    traj = edge_run(edges, speed)
    x = edge_reference(speed, np.asarray(traj.t))
    np.testing.assert_allclose(traj.q[:, 0], x, atol=1e-7)
    np.testing.assert_allclose(traj.q[:, 1], np.maximum(x, 0.0) ** 2, atol=1e-7)
    assert Kind.EDGE in kinds(traj)
    past = np.asarray(traj.q[:-1, 0]) > 0.0
    np.testing.assert_allclose(traj.P_N[1:, 0][past], 0.0, atol=1e-9)  # the plane carries nothing any more
    assert np.all(np.asarray(traj.P_N[1:, 1])[past] > 0.0)


# Arguments ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong", [{"edges": "both"}, {"error_per": "row"}, {"rtol": 0.0}, {"h_min": -1.0}, {"max_steps": 0}], ids=str
)
def test_wrong_arguments_are_named(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ns.EventDriven(**wrong)


def test_laws_without_a_gauge_are_refused():
    """A cylinder lets sliding and drilling begin and end apart, which one mode of a contact cannot say."""
    problem = ns.models.tippedisk(law=ns.Contensou("cylinder"))
    with pytest.raises(TypeError, match="Contensou"):
        ns.simulate(problem.system, EVENT, problem.q0, problem.u0, dt=0.01, num_steps=1)


@pytest.mark.slow
def test_exact_contensou_friction_lets_go_where_its_set_ends():
    """A puck under a force and a torque that grow in the direction of a known point of the boundary of B_F."""
    mu, R_bar, m, gravity, ratio = 0.3, 0.5, 0.5, 10.0, 0.8
    b_T, b_tau = (float(b) for b in contensou_boundary(jnp.asarray(ratio)))
    load = mu * m * gravity / 0.67 * np.array([b_T, 0.0, 0.0, R_bar * b_tau])  # reaches the boundary at t = 0.67 s
    floor = ns.Contacts(
        lambda t, q, p: q[2:3],
        lambda t, q, u, p: u[None, jnp.array([0, 1, 3])],
        mu=jnp.array([[mu, mu, mu * R_bar]]),
        law=ns.Contensou("exact"),
    )
    weight = np.array([0.0, 0.0, -m * gravity, 0.0])
    system = ns.System(
        None,
        lambda t, q, p: jnp.diag(jnp.array([m, m, m, 0.1])),
        contacts=floor,
        force=lambda t, q, u, p: t * load + weight,
    )
    traj = ns.simulate(system, EVENT, jnp.zeros(4), jnp.zeros(4), dt=0.1, t1=0.8)
    assert kinds(traj)[0] == Kind.SLIP
    np.testing.assert_allclose(traj.events.t[0], 0.67, atol=1e-8)
    small = ns.simulate(system, ns.Rattle(), jnp.zeros(4), jnp.zeros(4), dt=2e-4, t1=0.8)
    np.testing.assert_allclose(traj.u[-1], small.u[-1], atol=2e-5)


def test_a_freewheel_lets_go_and_locks_where_its_force_and_its_speed_vanish():
    """u̇ = f(t) + λ, 0 ≤ u ⊥ λ ≥ 0 with f = −cos t − 0.2, from rest: free from f = 0 until the speed is zero again."""
    freewheel = ns.Contacts(None, lambda t, q, u, p: u[:, None], law=ns.SpragClutch())
    push = lambda t, q, u, p: -jnp.cos(t)[None] - 0.2  # noqa: E731
    system = ns.System(None, lambda t, q, p: jnp.eye(1), force=push, contacts=freewheel)
    traj = ns.simulate(system, EVENT, jnp.zeros(1), jnp.zeros(1), dt=0.25, t1=7.5)

    def speed(t):
        return np.sin(start) - np.sin(t) - 0.2 * (t - start)

    start = np.arccos(-0.2)
    low, high = start + 1.0, 7.5
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if speed(middle) > 0.0 else (low, middle)
    assert kinds(traj) == [Kind.SLIP, Kind.STICK]
    np.testing.assert_allclose(traj.events.t, [start, low], atol=1e-8)
    t = np.asarray(traj.t)
    np.testing.assert_allclose(traj.u[:, 0], np.where((t > start) & (t < low), speed(t), 0.0), atol=1e-9)
    holding = np.sin(start) + 0.2 * start + np.sin(7.5) - np.sin(low) + 0.2 * (7.5 - low)  # ∫ λ dt
    np.testing.assert_allclose(np.sum(traj.P_F), holding, atol=1e-8)


def test_a_freewheel_is_hit_through_a_contact():
    """Möller 2011, §3.9: the impact with ε = (0, 1) ends with u⁺ = (0, u₁ − u₂)."""
    problem = ns.models.sprag_clutch(u1=1.5, u2=-1.0)
    with pytest.warns(UserWarning, match="different restitution coefficients"):
        traj = ns.simulate(problem.system, EVENT, problem.q0, problem.u0, dt=0.01, num_steps=2)
    np.testing.assert_allclose(traj.u[-1], [0.0, 2.5], atol=1e-9)
    np.testing.assert_allclose(traj.q[-1], [0.0, 0.05], atol=1e-9)


class Tilted(ns.AnisotropicCoulomb):
    """The ellipse of `AnisotropicCoulomb`, turned by TILT against the axes of the slip."""

    def project(self, x, mu, reservoir):
        return TURN.T @ ns.AnisotropicCoulomb().project(TURN @ x, mu, reservoir)

    def sliding(self, xi, mu, reservoir):
        return TURN.T @ ns.AnisotropicCoulomb().sliding(TURN @ xi, mu, reservoir)

    def gauge(self, P, mu):
        return ns.AnisotropicCoulomb().gauge(TURN @ P, mu)


TURN = np.array([[np.cos(0.5), np.sin(0.5)], [-np.sin(0.5), np.cos(0.5)]])


def test_a_law_of_ones_own_begins_to_slide_along_its_own_normal():
    """A block under a growing force: the turned ellipse is the straight one in a turned slip."""

    def block(law, slip):
        contacts = ns.Contacts(lambda t, q, p: q[2:], slip, mu=jnp.array([[0.25, 0.2]]), law=law)
        force = lambda t, q, u, p: jnp.array([3.0, 0.0, 0.0]) * t + jnp.array([0.0, 0.5, -10.0])  # noqa: E731
        return ns.System(None, lambda t, q, p: jnp.eye(3), force=force, contacts=contacts)

    systems = (
        block(Tilted(), lambda t, q, u, p: u[None, :2]),
        block(ns.AnisotropicCoulomb(), lambda t, q, u, p: (TURN @ u[:2])[None]),
    )
    zero = jnp.zeros(3)
    own, straight = (ns.simulate(system, EVENT, zero, zero, dt=0.1, t1=1.5) for system in systems)
    assert float(jnp.linalg.norm(straight.u[-1])) > 0.5  # it slides
    np.testing.assert_allclose(own.events.t, straight.events.t, atol=1e-9)
    np.testing.assert_allclose(own.u, straight.u, atol=1e-7)  # steps are chosen by the components of u
