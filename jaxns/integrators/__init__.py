"""One file per family of integrators; each docstring states the discrete equations."""
