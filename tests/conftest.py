"""Settings of all tests: double precision, quick compilation, and one fixed seed."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

# Most of the time of these tests is compilation. XLA's older emitters take half of the time of its newer ones for programs
# of many small operations, and a lower level of optimization saves a sixth more; JAX makes many long-lived objects, which a
# collection visits again and again.
QUICK = "--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=1"
os.environ["XLA_FLAGS"] = f"{QUICK} {os.environ.get('XLA_FLAGS', '')}"
gc.set_threshold(200_000, 50, 50)

import jax  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402

jax.config.update("jax_enable_x64", True)


@pytest.fixture(scope="module", autouse=True)
def forget_programs() -> Iterator[None]:
    """Drop what a file has compiled: all files together would fill many gigabytes."""
    yield
    jax.clear_caches()
    gc.collect()


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers that are the same in every run."""
    return np.random.default_rng(20240229)
