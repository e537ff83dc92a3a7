"""Measured drops of a square, a cube and an elbow: fitted on half of the records, predicted on the others.

    python benchmarks/real_data.py [square] [cube] [elbow] [--data FOLDER] [--records N]

From the first five rows of a record the start, by free flight; from the start rows 5 to 40, and the end of the record.
Median errors on records that were left out, beside constant velocity and default coefficients (e = 0, μ = 0.3). Where the
folder does not hold the files (where they are published: measured_bodies.py), small synthetic records of the same shape
take their place.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

from measuring import report  # first: it sets up XLA

import jax
import jax.numpy as jnp
import numpy as np

import jaxns as ns
from measured_bodies import EXPERIMENTS, KNOWN, ROWS, errors, poses_of, predictor, read, residual, starts

FILES = {"square": "square_drops.npz", "cube": "cube_tosses.npz", "elbow": "elbow_tosses.npz"}
DEFAULTS = {"e_N": 0.0, "e_F": 0.0, "mu": 0.3}


def measured(name: str, folder: Path, count: int | None) -> np.ndarray:
    """Poses (N, rows, nq) from the folder, or synthetic ones."""
    path = folder / FILES[name]
    if path.exists():
        records = read(path)
        return poses_of(name, [r for r in records if len(r) >= ROWS][:count])
    print(f"{path} is missing: synthetic records")
    rng, e = np.random.default_rng(0), EXPERIMENTS[name]
    n = 12
    q, u = np.zeros((n, 3)), rng.standard_normal((n, 3)) * [0.3, 0.1, 4.0] + [0.5, -1.8, 0.0]
    if name != "square":
        q = np.tile([0.0, 0.0, 0.2, 1.0, 0.0, 0.0, 0.0] + [0.0] * (name == "elbow"), (n, 1))
        u = rng.standard_normal((n, 6 + (name == "elbow"))) * 1.5
    else:
        q[:, 1], q[:, 2] = 0.12, rng.uniform(-3.0, 3.0, n)
    record = {"q0": jnp.asarray(q), "u0": jnp.asarray(u)}
    poses = jax.vmap(lambda r: predictor(name, ROWS)(e.guess, {}, r)["poses"])(record)
    return np.asarray(poses) + 1e-4 * rng.standard_normal(poses.shape)


def medians(name: str, predicted: np.ndarray, truth: np.ndarray) -> tuple[float, float, float, float]:
    """Position and angle along rows 5 to 40, and in the last row."""
    mm, degrees = errors(name, predicted[:, :ROWS], truth[:, :ROWS])
    last = np.array([np.flatnonzero(np.isfinite(rows[:, 0]))[-1] for rows in truth])
    ends = errors(name, *(x[np.arange(len(x)), last] for x in (predicted, truth)))
    return tuple(float(np.nanmedian(x)) for x in (mm[:, KNOWN:], degrees[:, KNOWN:], *ends))  # type: ignore[return-value]


def constant_velocity(name: str, q: np.ndarray, u: np.ndarray, rows: int) -> np.ndarray:
    t = np.arange(rows)[None, :, None] / EXPERIMENTS[name].rate
    if name == "square":
        return q[:, None] + t * u[:, None]
    from scipy.spatial.transform import Rotation

    out = np.repeat(q[:, None], rows, axis=1)
    out[..., :3] += t * u[:, None, :3]
    for i in range(len(q)):
        turned = Rotation.from_quat(np.roll(q[i, 3:7], -1)) * Rotation.from_rotvec(t[0] * u[i, 3:6])
        out[i, :, 3:7] = np.roll(turned.as_quat(), 1, axis=1)
    return out


def run(name: str, folder: Path, count: int | None) -> dict[str, float]:
    e = EXPERIMENTS[name]
    poses = measured(name, folder, count)
    q0, u0 = starts(name, poses)
    records = {"poses": poses[:, :ROWS], "q0": q0, "u0": u0}
    left_out = np.arange(len(poses)) % 2 == 1
    weights = np.tile(1.0 / e.scale**2, (ROWS, 1))
    weights[:KNOWN] = 0.0
    begin = time.perf_counter()
    fit = ns.identify_records(
        predictor(name, ROWS), records, shared=e.guess, bounds=e.bounds, loss="cauchy", weights={"poses": weights},
        residual=residual(name), test=left_out, derivatives="differences", step=0.03, num_iters=25, tol=1e-4, progress=True,
    )  # fmt: skip
    seconds = time.perf_counter() - begin
    print(f"{name}: {seconds:.0f} s\n   " + str(fit).replace("\n", "\n   "))
    rest = np.flatnonzero(left_out)
    long = predictor(name, poses.shape[1])

    @jax.jit
    def predict(shared: Any) -> Any:
        lanes = {"q0": jnp.asarray(q0[rest]), "u0": jnp.asarray(u0[rest])}
        return jax.vmap(lambda r: long(shared, {}, r)["poses"])(lanes)

    rows = {
        "fitted": np.asarray(predict(fit.shared)),
        "e = 0, mu = 0.3": np.asarray(predict(fit.shared | {k: jnp.asarray(v) for k, v in DEFAULTS.items()})),
        "constant velocity": constant_velocity(name, q0[rest], u0[rest], poses.shape[1]),
    }
    results = {f"{name}: s, compilation included": seconds}
    print(f"{name}: medians on {len(rest)} records left out: mm, degrees in rows 5 to 40; mm, degrees at the end")
    for label, predicted in rows.items():
        found = medians(name, predicted, poses[rest])
        print(f"    {label:18s} " + " ".join(f"{x:8.2f}" for x in found), flush=True)
        results |= {
            f"{name}, {label}: {what}": x
            for what, x in zip(("mm", "deg", "mm at the end", "deg at the end"), found, strict=True)
        }
    results |= {f"{name}: {n}": float(v) for n, v in zip(fit.names, fit.values, strict=True)}
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=[], help="square, cube, elbow; all by default")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--records", type=int, default=None, help="the first N records alone")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", category=ns.FitWarning)  # the report holds the doubts
    results: dict[str, Any] = {}
    for name in options.names or EXPERIMENTS:
        results |= run(name, options.data, options.records)
    report("real_data", results, update=bool(options.names))


if __name__ == "__main__":
    main()
