"""Settings of all tests: double precision, quick compilation, programs shared on disk, and one fixed seed."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

# Most of the time of these tests is compilation. XLA's older emitters take half of the time of its newer ones for programs
# of many small operations, and no optimization saves a quarter more; JAX makes many long-lived objects, which a
# collection visits again and again. JAXNS_TEST_XLA has other settings of XLA, or "default": the tests pass with those, too.
QUICK = (
    "--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_parallel_codegen_split_count=1"  # no parts for other threads: the other processes have the cores
)
# One folder for compiled programs of this run, which all its processes share, also those that the tests start. Who sets
# JAX_COMPILATION_CACHE_DIR keeps them from run to run.
FOLDER = "JAX_COMPILATION_CACHE_DIR"
CACHE = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}
own_folder = None

if "PYTEST_XDIST_WORKER" not in os.environ:  # workers inherit what the first process sets here
    chosen = os.environ.get("JAXNS_TEST_XLA", QUICK)
    if chosen != "default":
        os.environ["XLA_FLAGS"] = f"{chosen} {os.environ.get('XLA_FLAGS', '')}"
    os.environ.update(CACHE)
    if not os.environ.get(FOLDER):
        own_folder = os.environ[FOLDER] = tempfile.mkdtemp(prefix="jaxns_tests_")
gc.set_threshold(200_000, 50, 50)
ENOUGH_GIGABYTES = 3.0  # of one process
# Workers take whole files: the longest ones first, so that none of them is left for one worker at the end.
LONGEST = (
    "notebooks examples contract documentation derivatives energy_consistent general_systems contact_problem "
    "laws_and_solvers records identification event_derivatives event_driven mjcf_mujoco located hard_contacts"
).split()

import jax  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402

jax.config.update("jax_enable_x64", True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the variants of slow_variants.txt, before those that are not wanted are left out, and put long files first."""
    lines = Path(__file__).with_name("slow_variants.txt").read_text(encoding="utf-8").splitlines()
    slow = {line for line in lines if line and not line.startswith("#")}
    for item in items:
        if item.nodeid.removeprefix("tests/") in slow:
            item.add_marker(pytest.mark.slow)
    place = {f"test_{name}": number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(place)))


def pytest_unconfigure() -> None:
    """The end of the run: workers are done, and nothing is left behind."""
    if own_folder is not None:
        shutil.rmtree(own_folder, ignore_errors=True)


def resident_gigabytes() -> float:
    """Memory that this process has; infinite where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return float("inf")
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**30


@pytest.fixture(scope="module", autouse=True)
def forget_programs() -> Iterator[None]:
    """Drop what files have compiled before it fills many gigabytes; a hundred small programs are the same in all files."""
    yield
    if resident_gigabytes() > ENOUGH_GIGABYTES:
        jax.clear_caches()
        gc.collect()


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers that are the same in every run."""
    return np.random.default_rng(20240229)
