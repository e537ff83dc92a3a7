"""Fixed steps whose impacts are located."""
