"""Share of converged steps of RATTLE on random states of the slider-crank, this commit beside an older one.

    python benchmarks/robustness.py [--old 4c02ad9] [--states 200] [--seeds 7 8 9]

States as in the tests: any crank angle and speed, friction coefficients to 0.5; the violent ones turn crank and slider with
a standard deviation of 100 rad/s. A lane whose step fails keeps its last state and is counted as failed from there on. The
table shows the share of steps that did not converge, which must not be above the old one's, and is stored in
benchmarks/results/robustness.json.
"""

from __future__ import annotations

import sys
from typing import Any

from beside import ROOT, Child, answer, checkout, child, git, parser, questions

import json

STEPS = 150
STUDIES = {  # violent, dt
    "moderate, dt 1e-4": (False, 1e-4),
    "violent, dt 1e-4": (True, 1e-4),
    "violent, dt 1e-3": (True, 1e-3),
}


def serve(states: int) -> None:
    """In the child: one compiled batch answers all studies."""
    import jax
    import numpy as np

    import jaxns as ns

    sys.path.insert(0, str(ROOT / "tests"))
    from random_states import slider_crank_starts

    problem = ns.models.slider_crank()

    @jax.jit
    def run(dt: Any, *starts: Any) -> Any:
        def one(q0: Any, u0: Any, mu: Any) -> Any:
            system = problem.system.with_params(mu=mu)
            return ns.simulate(system, ns.Rattle(), q0, u0, dt=dt, num_steps=STEPS).status

        return jax.vmap(one)(*starts)

    for study in questions():
        violent, dt = STUDIES[study["name"]]
        status = np.asarray(run(dt, *slider_crank_starts(problem, states, study["seed"], violent)))
        failed = status != ns.Status.OK
        answer({"steps": int(failed.sum()), "lanes": int(failed.any(axis=1).sum()), "of": failed.size})


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--states", type=int, default=200)
    options.add_argument("--seeds", type=int, nargs="+", default=[7, 8, 9])
    chosen = options.parse_args()
    results: dict[str, Any] = {}
    with checkout(chosen.old) as old:
        processes = {k: Child(__file__, tree, {"states": chosen.states}) for k, tree in (("new", ROOT), ("old", old))}
        print(f"{'failed':24s} {'steps new':>10s} {'steps old':>10s} {'of':>8s} {'lanes new':>10s} {'lanes old':>10s}")
        for name in (x for x in STUDIES if chosen.only in x):
            found: dict[str, dict[str, int]] = {}
            for commit, process in processes.items():
                answers = [process.ask({"name": name, "seed": seed}) for seed in chosen.seeds]
                found[commit] = {k: sum(a[k] for a in answers) for k in answers[0]}
            new, old_one = found["new"], found["old"]
            counts = (
                f"{new['steps']:10d} {old_one['steps']:10d} {new['of']:8d} {new['lanes']:10d} {old_one['lanes']:10d}"
            )
            print(f"{name:24s} {counts}  {'holds' if new['steps'] <= old_one['steps'] else 'FAILS'}", flush=True)
            results[name] = found
        for process in processes.values():
            process.close()
    if not chosen.only:
        commits = {"commit": git("describe", "--always", "--dirty"), "old commit": chosen.old}
        file = ROOT / "benchmarks" / "results" / "robustness.json"
        file.write_text(
            json.dumps(commits | {"states": chosen.states, "seeds": chosen.seeds} | results, indent=2) + "\n"
        )


if __name__ == "__main__":
    asked = child()
    if asked is None:
        main()
    else:
        serve(asked["states"])
