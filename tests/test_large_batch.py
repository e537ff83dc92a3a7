"""Large batches must finish: no batched LAPACK call, which can deadlock, may be on the way."""

import subprocess
import sys

import jax
import jax.numpy as jnp
from processes import HANGING

import jaxns as ns

SCRIPT = """
import jax, jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec
import jaxns as ns

jax.config.update("jax_enable_x64", True)
problem = ns.models.slider_crank()

def end(mu):
    traj = ns.simulate(problem.system.with_params(mu=mu), ns.Rattle(), problem.q0, problem.u0, dt=1e-4, num_steps=12)
    return traj.q[-1], traj.ok

batch = PartitionSpec("batch")
mesh = jax.make_mesh((2,), ("batch",))
plain = jax.jit(jax.vmap(end))
split = jax.jit(jax.shard_map(jax.vmap(end), mesh=mesh, in_specs=batch, out_specs=batch, check_vma=False))
mus = jnp.linspace(0.0, 0.5, 4096)
for run in range(4):
    q, ok = plain(mus)
    q_split, ok_split = split(jax.device_put(mus, NamedSharding(mesh, batch)))
    assert bool(jnp.all(ok)) and bool(jnp.all(ok_split)), run
    assert float(jnp.max(jnp.abs(q - q_split))) < 1e-10, run
print("finished")
"""


def test_batch_of_4096_finishes_plain_and_split_over_two_devices() -> None:
    """In a process of its own, so that a hang ends as a failure."""
    environment = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "PATH": "/usr/bin:/bin", "HOME": "/"}
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=HANGING, env=environment, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "finished" in result.stdout


def test_hot_path_has_no_lapack_call() -> None:
    problem = ns.models.slider_crank()

    def end(mu: jax.Array) -> jax.Array:
        system = problem.system.with_params(mu=mu)
        return ns.simulate(system, ns.Rattle(), problem.q0, problem.u0, dt=1e-4, num_steps=3).q[-1]

    lowered = jax.jit(jax.vmap(jax.value_and_grad(lambda mu: jnp.sum(end(mu))))).lower(jnp.linspace(0.0, 0.1, 8))
    assert "lapack" not in lowered.as_text().lower()
