"""The command line `jaxns`."""
