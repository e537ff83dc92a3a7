"""Contact problems through Siconos, in a process of its own: its Python may have another numpy than ours.

    python3 benchmarks/siconos_solvers.py problems.npz solutions.npz      # what contact_suite.py runs

numpy and Siconos alone are imported.
"""

import sys
import time

import numpy as np
import siconos.numerics as sn

SOLVERS = {  # name: Siconos' number, most iterations
    "Siconos NSGS": (sn.SICONOS_FRICTION_3D_NSGS, 5000),
    "Siconos NSN": (sn.SICONOS_FRICTION_3D_NSN_AC, 500),
}
TOLERANCE = 1e-12


def solve(number, iterations, W, q, mu):
    """Percussions, and the best time of three runs."""
    problem = sn.FrictionContactProblem(3, len(mu), W, q, mu)
    options = sn.SolverOptions(number)
    options.dparam[sn.SICONOS_DPARAM_TOL] = TOLERANCE
    options.iparam[sn.SICONOS_IPARAM_MAX_ITER] = iterations
    best = np.inf
    for _ in range(3):
        r, u = np.zeros(len(q)), np.zeros(len(q))
        begin = time.perf_counter()
        sn.fc3d_driver(problem, r, u, options)
        best = min(best, time.perf_counter() - begin)
    return r, best


def main() -> None:
    data = np.load(sys.argv[1])
    out = {}
    for name, (number, iterations) in SOLVERS.items():
        for k in range(int(data["count"])):
            r, seconds = solve(number, iterations, data[f"{k}_W"], data[f"{k}_q"], data[f"{k}_mu"])
            out[f"{name}_{k}_r"], out[f"{name}_{k}_seconds"] = r, seconds
    np.savez(sys.argv[2], names=list(SOLVERS), **out)


if __name__ == "__main__":
    main()
