"""Event-driven integration: adaptive steps, and events located to rounding."""
