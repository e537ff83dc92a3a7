"""Minimal coordinates: the joints that make a tree, and the poses, inertia and forces that follow from them."""
