"""Energy-consistent integrators."""
