"""Live exploration in notebooks: sliders for parameters and initial states, a film and curves that follow."""
