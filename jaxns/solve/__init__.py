"""Inclusion solvers, small dense linear algebra, and the implicit-derivative wrapper."""
