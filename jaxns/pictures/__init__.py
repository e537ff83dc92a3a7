"""Films: frames, the page that plays them, stills."""
