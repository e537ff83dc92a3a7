"""Reading the traces of functions: with lanes, for zeros, for dependence, for a fingerprint."""
