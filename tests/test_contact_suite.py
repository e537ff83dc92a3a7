"""Random contact problems of which it is known whether they have a solution: solved or named, in how many iterations."""

from __future__ import annotations

import jax
import numpy as np
import random_contacts
from contact_modes import natural_residual, planar_solution

import jaxns as ns


def solved(problems, d):
    """Status, iterations and natural residual, the last by numpy alone."""
    G, c, mu = (np.stack(each) for each in zip(*(problem[:3] for problem in problems), strict=True))
    solution = jax.jit(jax.vmap(lambda G, c, mu: ns.solve_contacts(G, c, mu, d=d)))(G, c, mu)
    P = np.concatenate([solution.P_N, solution.P_F.reshape(len(c), -1)], axis=1)
    residual = [natural_residual(*each, d, x) for *each, x in zip(G, c, mu, P, strict=True)]
    return np.asarray(solution.status), np.asarray(solution.iterations), np.array(residual)


def test_random_problems_are_solved_or_named():
    """Newton's restitution can ask a wedged disk to rebound from both walls; the modes of the contacts say when."""
    rng = np.random.default_rng(5)
    sets = [
        [random_contacts.general(rng, "wedge" if k % 10 >= 7 else "slater", d, n) for k in range(100)]
        for n, d in ((2, 1), (6, 1), (2, 2), (5, 2))
    ]
    sets.append([random_contacts.groove(rng) for _ in range(200)])
    results = [solved(problems, problems[0].d) for problems in sets]
    status, iterations, residual = (np.concatenate(each) for each in zip(*results, strict=True))
    kind = np.array([problem.kind for problems in sets for problem in problems])
    solvable = kind != "groove"
    solvable[~solvable] = [planar_solution(*problem[:3]) is not None for problem in sets[-1]]

    assert 20 < np.sum(~solvable) < 100
    np.testing.assert_array_equal(status == ns.Status.INFEASIBLE, ~solvable)
    ok = (status == ns.Status.OK) & (residual <= 1e-10)
    assert ok[solvable & (kind != "wedge")].all()
    assert np.mean(ok[kind == "wedge"]) >= 0.98
    assert np.percentile(iterations[ok], 95) <= 30
    assert iterations[ok & (kind == "groove")].max() <= 40
