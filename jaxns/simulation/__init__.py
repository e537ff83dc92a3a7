"""The one loop over steps, and what it returns."""
