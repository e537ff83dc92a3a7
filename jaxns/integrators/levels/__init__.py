"""What several schemes share: mechanics and laws on position, velocity and acceleration level."""
