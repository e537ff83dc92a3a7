"""What the user writes, and what autodiff derives from it."""
