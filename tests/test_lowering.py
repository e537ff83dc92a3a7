"""Programs of all integrators lower for GPUs and TPUs: they contain no operation that these do not have.

Lowering needs no such device, and compiles nothing.
"""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import pytest
from integrators import ALL, CONSISTENT, named

import jaxns as ns

PLATFORMS = ("cuda", "tpu")
LOCATED = named(ns.Located(ns.Rattle()))
QUICK = [*ALL, *LOCATED, *named(ns.EnergyTwoStep())]


def lowered(integrator, transform) -> jax.export.Exported:
    """The end of a short motion as a function of its initial velocities, transformed, for both platforms."""
    quaternions = isinstance(integrator, (ns.EnergyQuaternion, ns.EnergyQuaternionTwoStep))
    model = ns.models.tippe_top() if quaternions else ns.models.bouncing_ball()

    def end(u0):
        return ns.simulate(model.system, integrator, model.q0, u0, dt=1e-2, num_steps=3).q[-1]

    function, argument = transform(end, model.u0)
    return jax.export.export(jax.jit(function), platforms=PLATFORMS)(argument)


def batch(end, u0):
    return jax.vmap(end), jnp.stack([u0, 2.0 * u0])


def gradient(end, u0):
    return jax.grad(lambda u: end(u)[1]), u0


def check(program: jax.export.Exported) -> None:
    assert program.platforms == PLATFORMS
    # a call into a library (LAPACK, a Python callback) would be tied to one platform
    assert re.findall(r"stablehlo\.custom_call @(\w+)", program.mlir_module()) == []


def test_a_library_call_would_be_seen():
    program = jax.export.export(jax.jit(jnp.linalg.inv), platforms=PLATFORMS)(jnp.eye(3))
    with pytest.raises(AssertionError):
        check(program)


@pytest.mark.parametrize("integrator", QUICK)
def test_batches_lower(integrator):
    check(lowered(integrator, batch))


@pytest.mark.slow
@pytest.mark.parametrize("integrator", CONSISTENT)
def test_batches_of_all_energy_consistent_schemes_lower(integrator):
    check(lowered(integrator, batch))


@pytest.mark.slow
@pytest.mark.parametrize("integrator", [*ALL, *LOCATED, *CONSISTENT])
def test_gradients_lower(integrator):
    check(lowered(integrator, gradient))
