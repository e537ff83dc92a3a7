"""Bad input raises an error that names the culprit."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxns as ns
from jaxns.model import affinity

Q0, U0 = np.array([0.0, 1.0]), np.array([0.5, 0.0])
GOOD = {
    "mass": lambda t, q, p: p["m"] * jnp.eye(2),
    "potential": lambda t, q, p: p["m"] * 9.81 * q[1],
    "force": lambda t, q, u, p: -0.1 * u,
}


def gap(t, q, p):
    return q[1:2]


def slip(t, q, u, p):
    return u[0:1][:, None]


def build(contacts=None, **functions):
    """A particle above the floor, with some of its functions replaced."""
    contacts = contacts or ns.Contacts(gap, slip, mu=0.3)
    return ns.System({"m": 1.0}, **{**GOOD, **functions}, contacts=contacts)


def run(system=None, integrator=None, q0=Q0, u0=U0, **arguments):
    arguments = arguments or {"dt": 0.01, "num_steps": 2}
    return ns.simulate(system or build(), integrator or ns.Rattle(), q0, u0, **arguments)


BAD_SHAPES = {
    "mass": (lambda t, q, p: jnp.ones(2), r"mass.*\(2, 2\).*\(2,\)"),
    "potential": (lambda t, q, p: q, r"potential.*\(\).*\(2,\)"),
    "force": (lambda t, q, u, p: jnp.ones(3), r"force.*\(2,\).*\(3,\)"),
    "kinematics": (lambda t, q, u, p: jnp.ones(3), r"kinematics.*\(2,\).*\(3,\)"),
    "constraint": (lambda t, q, p: q[0], r"constraint.*\(n,\).*\(\)"),
    "velocity_constraint": (lambda t, q, u, p: u[0], r"velocity_constraint.*\(n,\).*\(\)"),
}


@pytest.mark.parametrize("name", BAD_SHAPES)
def test_wrong_shape_of_a_system_function_names_the_function_and_both_shapes(name):
    function, message = BAD_SHAPES[name]
    with pytest.raises(ValueError, match=message):
        run(build(**{name: function}))


def test_wrong_shape_of_gap_names_the_contact_group():
    with pytest.raises(ValueError, match=r"gap of contact group 1.*\(n,\).*\(\)"):
        run(build((ns.Contacts(gap), ns.Contacts(lambda t, q, p: q[1]))))


@pytest.mark.parametrize(
    ("bad_slip", "message"),
    [
        (lambda t, q, u, p: u[:1], r"slip of contact group 0.*\(1, n\).*\(1,\)"),
        (lambda t, q, u, p: jnp.ones((2, 1)), r"slip of contact group 0.*\(1, n\).*\(2, 1\)"),
        (lambda t, q, u, p: jnp.ones((1, 4)), r"slip of contact group 0.*4 components"),
    ],
    ids=["vector", "wrong number of contacts", "four components"],
)
def test_wrong_shape_of_slip_names_the_contact_group(bad_slip, message):
    with pytest.raises(ValueError, match=message):
        run(build(ns.Contacts(gap, bad_slip)))


def test_error_inside_a_user_function_says_which_function_it_was():
    with pytest.raises(KeyError) as caught:
        run(build(force=lambda t, q, u, p: p["nonsense"] * u))
    assert any("force" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("name", ["mass", "force"])
def test_a_function_that_is_no_function_is_named(name):
    with pytest.raises(TypeError, match=f"{name} must be a function"):
        build(**{name: np.eye(2)})


@pytest.mark.parametrize("dt", [0.0, -0.01, np.nan, np.inf])
def test_step_size_must_be_positive_and_finite(dt):
    with pytest.raises(ValueError, match="dt must be positive"):
        run(dt=dt, num_steps=2)


def test_vector_step_size_points_to_vmap():
    with pytest.raises(ValueError, match=r"dt must be a scalar.*vmap"):
        run(dt=np.array([0.1, 0.2]), num_steps=2)


def test_exactly_one_of_end_time_and_number_of_steps():
    with pytest.raises(ValueError, match=r"t1 and num_steps.*neither"):
        run(dt=0.01)
    with pytest.raises(ValueError, match=r"t1 and num_steps.*both"):
        run(dt=0.01, t1=1.0, num_steps=100)


def test_traced_step_size_needs_a_number_of_steps():
    with pytest.raises(ValueError, match="num_steps"):
        jax.vmap(lambda dt: run(dt=dt, t1=1.0).q)(jnp.array([0.1, 0.2]))


def test_end_time_before_start_time():
    with pytest.raises(ValueError, match="at least one step"):
        run(dt=0.01, t1=1.0, t0=2.0)


def test_save_every_must_divide_the_number_of_steps():
    with pytest.raises(ValueError, match=r"save_every.*3.*10"):
        run(dt=0.01, num_steps=10, save_every=3)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["q0", "u0"])
def test_nonfinite_initial_state_is_named(name, value):
    with pytest.raises(ValueError, match=f"{name} must be finite"):
        run(**{name: np.array([value, 1.0])}, dt=0.01, num_steps=2)


def test_batched_initial_state_points_to_vmap():
    with pytest.raises(ValueError, match=r"q0 must be a vector.*vmap"):
        run(q0=np.ones((3, 2)), dt=0.01, num_steps=2)


def test_penetration_is_reported_with_its_size():
    with pytest.raises(ValueError, match=r"penetrates: gap 0 is -2\.5.*e-02"):
        run(q0=np.array([0.0, -0.025]))


def test_inconsistent_position_is_reported_with_its_size():
    with pytest.raises(ValueError, match=r"component 0 of constraint g\(q0\) is 2\.5.*e-01"):
        run(build(constraint=lambda t, q, p: q[:1] - q[1:] + 1.25), u0=np.zeros(2))


def test_inconsistent_velocity_is_reported_with_its_size():
    with pytest.raises(ValueError, match=r"component 0 of constraint velocity .* is 5\.0.*e-01"):
        run(build(constraint=lambda t, q, p: q[:1] - q[1:] + 1.0))


def test_violated_velocity_constraint_is_reported_with_its_size():
    with pytest.raises(ValueError, match=r"component 0 of velocity constraint .* is 5\.0.*e-01"):
        run(build(velocity_constraint=lambda t, q, u, p: u[:1]))


def test_inconsistent_states_can_be_allowed():
    """check=False starts from the state as it is; RATTLE then satisfies the constraint from the first step on."""
    system = build(constraint=lambda t, q, p: q[:1] - q[1:] + 1.0, contacts=ns.Contacts(gap))
    traj = run(system, dt=0.01, num_steps=2, check=False)
    assert abs(traj.q[1, 0] - traj.q[1, 1] + 1.0) < 1e-9


@pytest.mark.parametrize(
    "matrix", [np.diag([1.0, 0.0]), np.ones((2, 2)), np.diag([1.0, -1.0]), np.diag([1.0, np.nan])],
    ids=["zero row", "rank one", "indefinite", "NaN"],
)  # fmt: skip
def test_singular_mass_matrix_is_reported(matrix):
    with pytest.raises(ValueError, match=r"mass matrix.*positive definite.*eigenvalues"):
        run(build(mass=lambda t, q, p: jnp.asarray(matrix)))


@pytest.mark.parametrize(
    ("name", "value"),
    [("mu", -0.1), ("e_N", -0.1), ("e_N", 1.1), ("e_F", -0.1), ("e_F", 1.1), ("mu", np.nan), ("mu", np.inf)],
)
@pytest.mark.parametrize("as_function", [False, True], ids=["number", "function of p"])
def test_coefficient_out_of_range_is_named(name, value, as_function):
    given = (lambda p: jnp.asarray(value)) if as_function else value
    with pytest.raises(ValueError, match=f"`gap`: {name} must be"):
        run(build(ns.Contacts(gap, slip, **{name: given})))


def test_coefficient_of_wrong_shape_is_named():
    with pytest.raises(ValueError, match=r"mu must .*\(1,\).*got shape \(3,\)"):
        run(build(ns.Contacts(gap, slip, mu=np.ones(3))))


def test_unequal_numbers_of_coordinates_need_kinematics():
    with pytest.raises(ValueError, match=r"q0 has 3 and u0 has 2.*kinematics"):
        run(q0=np.ones(3))


def test_unknown_parameter_is_named_and_the_known_ones_listed():
    with pytest.raises(KeyError, match=r"frictoin.*mu"):
        ns.models.bouncing_ball().system.with_params(frictoin=0.1)


def test_tolerance_that_single_precision_cannot_reach_says_how_to_enable_double():
    with pytest.raises(ValueError, match=r"tol=1e-10 cannot be reached in float32.*JAX_ENABLE_X64"):
        run(integrator=ns.Rattle(tol=1e-10), q0=np.float32(Q0), u0=np.float32(U0))


def test_tolerance_below_double_precision():
    with pytest.raises(ValueError, match="tol=1e-17 cannot be reached in float64"):
        run(integrator=ns.Moreau(tol=1e-17))


@pytest.mark.parametrize("law", [None, ns.Coulomb(), ns.AnisotropicCoulomb(), ns.Contensou()], ids=str)
def test_friction_without_a_normal_force_is_refused(law):
    """It would be frictionless, whatever mu."""
    with pytest.raises(ValueError, match=r"needs a normal force.*frictionless.*Give a gap"):
        ns.Contacts(None, slip, mu=0.3, law=law)


def test_a_law_that_needs_no_normal_force_needs_no_gap():
    class Belt(ns.FrictionLaw):
        needs_normal_force = False

        def project(self, x, mu, reservoir):
            return jnp.clip(x, -mu, mu)

    group = ns.Contacts(None, slip, mu=0.3, law=Belt())
    traj = run(ns.System({"m": 1.0}, GOOD["mass"], contacts=group), ns.Moreau(), dt=0.01, num_steps=1)
    np.testing.assert_allclose(traj.P_F[1], [[-0.3]], atol=1e-10)
    np.testing.assert_allclose(traj.u[1], [0.2, 0.0], atol=1e-10)


def test_a_law_that_is_no_law_is_named():
    with pytest.raises(TypeError, match=r"law must be a friction law.*'coulomb'"):
        ns.Contacts(gap, slip, law="coulomb")


# Functions that must be affine in u -------------------------------------------------------------------------------------

NOT_AFFINE = {
    "slip of contact group 0": lambda f: {"contacts": ns.Contacts(gap, lambda t, q, u, p: f(u[:1])[:, None], mu=0.3)},
    "kinematics": lambda f: {"kinematics": lambda t, q, u, p: f(u), "contacts": ns.Contacts(gap)},
    "velocity_constraint": lambda f: {
        "velocity_constraint": lambda t, q, u, p: f(u[:1]) - f(jnp.asarray(U0[:1])),
        "contacts": ns.Contacts(gap),
    },
}
BENT = {
    "square": lambda v: v * v,
    "absolute value": jnp.abs,
    "regularised sign": lambda v: jnp.tanh(v / 1e-3),
    "direction": lambda v: v / jnp.sqrt(v @ v + 1e-12),
    "saturation": lambda v: jnp.clip(v, -100.0, 100.0),
}


@pytest.mark.parametrize("bend", BENT)
@pytest.mark.parametrize("name", NOT_AFFINE)
def test_a_function_that_is_not_affine_in_the_velocities_is_named(name, bend):
    with pytest.raises(ValueError, match=rf"{name} .*must be affine in u.*force direction.*wrong"):
        run(build(**NOT_AFFINE[name](BENT[bend])))


def test_a_function_that_is_not_affine_is_named_each_time():
    system = build(**NOT_AFFINE["kinematics"](BENT["square"]))
    for _ in range(2):
        with pytest.raises(ValueError, match="affine"):
            run(system)


@pytest.mark.parametrize(
    "affine",
    [
        lambda u: jnp.where(u > 0.0, 2.0 * u, u + u) + 1e6,
        lambda u: jax.lax.fori_loop(0, 3, lambda i, v: v + u, jnp.zeros_like(u)),
        lambda u: u**2 / u,
    ],
    ids=["both sides alike", "loop", "quotient"],
)
def test_an_affine_function_is_recognised_by_its_values_where_its_trace_does_not_tell(affine, monkeypatch):
    """And it is tried once: the second run looks at nothing."""
    tries = []
    defects = affinity._defects
    monkeypatch.setattr(affinity, "_defects", lambda *arguments: tries.append(1) or defects(*arguments))
    system = build(contacts=ns.Contacts(gap, lambda t, q, u, p: affine(u[:1])[:, None], mu=0.3))
    for _ in range(2):
        assert run(system).ok
    assert len(tries) == 1


def test_square_kinematics_must_be_invertible():
    with pytest.raises(ValueError, match=r"kinematics.*invertible.*singular values"):
        run(build(kinematics=lambda t, q, u, p: jnp.stack([u[0], u[0]]), contacts=ns.Contacts(gap)))


def test_restitution_must_be_one_that_exists():
    for scheme in (ns.Moreau, ns.GGLDecoupled, ns.Rattle, ns.Lobatto, ns.EnergyTwoStep):
        with pytest.raises(ValueError, match=rf"{scheme.__name__}: restitution must be one of.*'stronge'"):
            scheme(restitution="stronge")


# Values that are traced, and so cannot raise -----------------------------------------------------------------------------

GOOD_VALUES = {"x": 0.0, "y": 0.05, "v": 0.5, "w": -1.0, "m": 1.0, "J": 1.0, "mu": 0.3, "e_N": 0.5, "e_F": 0.1,
               "gravity": 9.81, "t0": 0.0, "dt": 0.01}  # fmt: skip
BAD_VALUES = {
    **{f"{name} = {value}": {name: value} for name in GOOD_VALUES for value in (np.nan, np.inf, -np.inf)},
    **{f"{name} = {value}": {name: value} for name in ("m", "dt") for value in (0.0, -0.01)},
    **{f"{name} = {value}": {name: value} for name in ("e_N", "e_F") for value in (-0.1, 1.1)},
    "mu = -0.1": {"mu": -0.1},
    "J = 0.0": {"J": 0.0},
    "J = -1.0": {"J": -1.0},
    "indefinite mass matrix": {"J": 0.2},
}


def particle(values):
    """A particle that hits the floor in the fifth step, with coupled inertia."""
    system = ns.System(
        values,
        mass=lambda t, q, p: jnp.stack([jnp.stack([p["m"], 0.5 * p["m"]]), jnp.stack([0.5 * p["m"], p["J"]])]),
        potential=lambda t, q, p: p["gravity"] * q[1],
        contacts=ns.Contacts(gap, slip, mu=lambda p: p["mu"], e_N=lambda p: p["e_N"], e_F=lambda p: p["e_F"]),
    )
    q0, u0 = jnp.stack([values["x"], values["y"]]), jnp.stack([values["v"], values["w"]])
    return ns.simulate(system, ns.Rattle(), q0, u0, dt=values["dt"], t0=values["t0"], num_steps=8)


@pytest.fixture(scope="module")
def traced():
    """One batch of all bad values, and the good ones last."""
    cases = [{**GOOD_VALUES, **bad} for bad in BAD_VALUES.values()] + [GOOD_VALUES]
    return jax.jit(jax.vmap(particle))({name: jnp.array([case[name] for case in cases]) for name in GOOD_VALUES})


@pytest.mark.parametrize("case", BAD_VALUES)
def test_a_traced_bad_value_is_told_by_the_status(traced, case):
    status = np.asarray(traced.status)[list(BAD_VALUES).index(case)]
    q = np.asarray(traced.q)[list(BAD_VALUES).index(case)]
    first = status[status != ns.Status.OK][0]
    assert first in (ns.Status.BAD_INPUT, ns.Status.NONFINITE)
    assert np.all(status[np.argmax(status != ns.Status.OK) + 1 :] == ns.Status.STOPPED)
    accepted = np.concatenate([[False], status == ns.Status.OK])
    assert np.all(np.isfinite(q[accepted]))
    assert first == ns.Status.NONFINITE or status[0] == ns.Status.BAD_INPUT


def test_the_good_values_of_that_batch_run(traced):
    assert np.all(traced.status[-1] == ns.Status.OK) and np.any(traced.P_N[-1] > 0.0)


def test_a_bad_value_has_no_derivative():
    """It is NaN, not that of the initial state."""
    height = lambda dt: particle({**GOOD_VALUES, "dt": dt}).q[-1, 1]  # noqa: E731
    assert np.isnan(jax.grad(height)(-0.01)) and np.isfinite(jax.grad(height)(0.01))
