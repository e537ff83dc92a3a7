"""Identification from many records: shared parameters, and own ones of each record."""
