"""Which laws of impact and friction do measured drops of a square and a cube prefer?

    python benchmarks/impact_laws.py [square] [cube] [--data FOLDER] [--records N] [--iterations K]

The models of `real_data.py`, with e_N, e_F or μ as functions of the speed of approach or of sliding, and with rolling
resistance. Each law has one or two parameters more than the constants, and is fitted from where the constants ended.
Loss on the records fitted, and median errors in rows 5 to 40 of the others.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

from measuring import report  # first: it sets up XLA

import jax.numpy as jnp
import numpy as np

import jaxns as ns
from measured_bodies import EXPERIMENTS, KNOWN, ROWS, Experiment, errors, predictor, residual, starts, with_coefficients
from real_data import measured


def falling(name: str, rate: str) -> ns.BySpeed:
    """c exp(−k v), cut off at 1."""
    return ns.BySpeed(lambda v, p: jnp.minimum(p[name] * jnp.exp(-p[rate] * v), 1.0))


STRIBECK = ns.BySpeed(lambda v, p: jnp.maximum(p["mu"] + p["rise"] * jnp.exp(-v / p["v_s"]), 0.0))
# Law: parameters at which it is the constant one, their bounds, coefficients
LAWS: dict[str, tuple[dict[str, float], dict[str, tuple[float, float]], dict[str, Any]]] = {
    "constant": ({}, {}, {}),
    "e_N(v)": ({"k_N": 0.0}, {"k_N": (-1.0, 1.0)}, {"e_N": falling("e_N", "k_N")}),
    "e_F(v)": ({"k_F": 0.0}, {"k_F": (-1.0, 1.0)}, {"e_F": falling("e_F", "k_F")}),
    "mu(v)": ({"rise": 0.0, "v_s": 0.3}, {"rise": (-0.2, 0.5), "v_s": (0.05, 1.0)}, {"mu": STRIBECK}),
}


def rolling(e: Experiment) -> Experiment:
    """The square with a torque of up to μ_r P_N against its rotation, at each corner."""
    (c,) = e.system.contacts
    assert c.gap is not None and c.slip is not None
    slip = c.slip

    def with_spin(t: Any, q: Any, u: Any, p: Any) -> Any:
        along = slip(t, q, u, p)
        return jnp.concatenate([along, jnp.broadcast_to(u[2], along.shape)], axis=1)

    def mu(p: Any) -> Any:
        return jnp.broadcast_to(jnp.stack([p["mu"], p["mu_r"]]), (4, 2))

    s = e.system
    contacts = ns.Contacts(c.gap, with_spin, e_N=c.e_N, mu=mu, law=ns.Uncoupled((1, 1)))
    system = ns.System(s.params | {"mu_r": 1e-4}, s.mass, s.potential, s.force, contacts=contacts)
    return e._replace(system=system, guess=e.guess | {"mu_r": 1e-4}, bounds=e.bounds | {"mu_r": (0.0, 5e-3)})


def variants(name: str) -> dict[str, Experiment]:
    e = EXPERIMENTS[name]
    found = {}
    for law, (params, bounds, coefficients) in LAWS.items():
        system = with_coefficients(e.system, params, **coefficients)
        found[law] = e._replace(system=system, guess=e.guess | params, bounds=e.bounds | bounds)
    if name == "square":
        bare = {"e_F": 0.0}  # restitution of the spin has no meaning beside a torque that brakes it
        found["e_F = 0"] = e._replace(
            system=with_coefficients(e.system, {}, e_F=0.0), guess={k: v for k, v in e.guess.items() if k not in bare}
        )
        found["e_F = 0, rolling resistance"] = rolling(found["e_F = 0"])
    return found


def compare(name: str, folder: Path, count: int | None, num_iters: int) -> dict[str, float]:
    poses = measured(name, folder, count)
    q0, u0 = starts(name, poses)
    left_out = np.arange(len(poses)) % 2 == 1
    weights = np.tile(1.0 / EXPERIMENTS[name].scale ** 2, (ROWS, 1))
    weights[:KNOWN] = 0.0
    start: dict[str, Any] = {}
    results: dict[str, float] = {}
    for law, e in variants(name).items():
        EXPERIMENTS[f"{name}, {law}"] = e
        guess = {k: start.get(k, v) for k, v in e.guess.items()}
        fit = ns.identify_records(
            predictor(f"{name}, {law}", ROWS), {"poses": poses[:, :ROWS], "q0": q0, "u0": u0}, shared=guess,
            bounds={k: e.bounds[k] for k in guess if k in e.bounds}, loss="cauchy", weights={"poses": weights},
            residual=residual(name), test=left_out, derivatives="differences", step=e.step, num_iters=num_iters, tol=1e-4,
        )  # fmt: skip
        start = start or dict(fit.shared)
        assert fit.test is not None
        mm, degrees = errors(name, np.asarray(fit.test.prediction["poses"]), poses[left_out, :ROWS])
        found = {
            "loss": fit.loss / fit.scale**2,
            "scale": fit.scale,
            "mm": float(np.nanmedian(mm[:, KNOWN:])),
            "deg": float(np.nanmedian(degrees[:, KNOWN:])),
        }
        new = {
            k: f"{float(fit.shared[k]):.3g} ± {float(fit.standard_errors[k]):.2g}"
            for k in guess
            if k not in start or law == "constant"
        }
        print(f"{name}, {law}: {found} {new}", flush=True)
        results |= {f"{name}, {law}: {k}": v for k, v in found.items()}
        results |= {f"{name}, {law}: {k}": float(fit.shared[k]) for k in new}
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=[], help="square, cube; both by default")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--records", type=int, default=None, help="the first N records alone")
    parser.add_argument("--iterations", type=int, default=25, help="at most")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", category=ns.FitWarning)
    results: dict[str, Any] = {}
    for name in options.names or ("square", "cube"):
        results |= compare(name, options.data, options.records, options.iterations)
    report("impact_laws", results, update=bool(options.names))


if __name__ == "__main__":
    main()
