"""Convex sets with their projections, and force laws built from them."""
