"""Energy, convergence, identification and sensitivity of trajectories."""
