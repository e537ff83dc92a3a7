"""Sweeps: the same as `jax.vmap`, in chunks, from a directory, on several devices and in several processes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from subprocess import PIPE

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from processes import HANGING

import jaxns as ns
from jaxns.sweeps.store import Store

BATCH = {"a": jnp.linspace(-1.0, 2.0, 11), "b": np.arange(33).reshape(11, 3)}
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/",
    "JAX_PLATFORMS": "cpu",
    "PYTHONPATH": str(Path(ns.__file__).parents[1]),
}


def function(p):
    """Something with a loop, several dtypes, and a tree."""
    count, x = jax.lax.while_loop(lambda s: s[1] < 10.0, lambda s: (s[0] + 1, 1.5 * s[1]), (0, 1.0 + p["a"] ** 2))
    return {"x": jnp.sin(x) * p["b"], "more": (count, p["a"] > 0.0)}


def assert_same(result, expected):
    assert jax.tree.structure(result) == jax.tree.structure(expected)
    for r, e in zip(jax.tree.leaves(result), jax.tree.leaves(expected), strict=True):
        assert isinstance(r, np.ndarray)
        assert (r.shape, r.dtype) == (e.shape, e.dtype)
        np.testing.assert_allclose(r, e, rtol=1e-12, atol=1e-12)


@pytest.fixture
def written(monkeypatch):
    """The chunks that are written from now on."""
    chunks: list[int] = []
    write = Store.write

    def recorded(self, k, leaves):
        write(self, k, leaves)
        chunks.append(k)

    monkeypatch.setattr(Store, "write", recorded)
    return chunks


# The same as vmap ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("chunk", "workers"), [(None, None), (1, 2), (4, 1), (4, 3), (11, 2), (50, None)])
def test_equals_vmap(chunk, workers):
    assert_same(ns.sweep(function, BATCH, chunk=chunk, workers=workers), jax.vmap(function)(BATCH))


def test_one_trace_serves_all_chunks():
    traces = []

    def counted(x):
        traces.append(x)
        return 2.0 * x

    for batch in (np.arange(10.0), np.linspace(-1.0, 3.0, 7)):
        np.testing.assert_array_equal(ns.sweep(counted, batch, chunk=3), 2.0 * batch)
    assert len(traces) == 1


def test_functions_that_cannot_be_hashed():
    class Scale(dict):
        def __call__(self, x):
            return self["by"] * x

    np.testing.assert_array_equal(ns.sweep(Scale(by=3.0), np.arange(4.0)), 3.0 * np.arange(4.0))


def test_chunks_run_side_by_side_and_their_order_does_not_matter(tmp_path, monkeypatch):
    meeting, write, order = threading.Barrier(2, timeout=HANGING), Store.write, []
    written = threading.Event()

    def slow(self, k, leaves):
        meeting.wait()  # breaks unless two threads are here at the same time
        if k == 0:
            written.wait(HANGING)  # until its neighbour is done
        write(self, k, leaves)
        order.append(k)
        if k == 1:
            written.set()

    monkeypatch.setattr(Store, "write", slow)
    result = ns.sweep(lambda x: x**2, np.arange(8.0), chunk=2, workers=2, path=tmp_path)
    np.testing.assert_array_equal(result, np.arange(8.0) ** 2)
    assert order[0] == 1


def test_random_keys_can_be_swept(tmp_path):
    keys = jax.random.split(jax.random.key(3), 5)
    expected = jax.vmap(jax.random.normal)(keys)
    for _ in range(2):
        assert_same(ns.sweep(jax.random.normal, keys, chunk=2, path=tmp_path), expected)


def test_settings_of_the_calling_thread_hold():
    with jax.enable_x64(False):
        result = ns.sweep(lambda x: x / 3.0, np.arange(5.0), chunk=2, workers=2)
    assert result.dtype == np.float32


def test_progress_bar_counts_lanes(capsys):
    ns.sweep(function, BATCH, chunk=4, progress=True)
    assert "11/11" in capsys.readouterr().err


# The directory ------------------------------------------------------------------------------------------------------


def test_second_run_computes_only_what_is_missing(tmp_path, written):
    expected = jax.vmap(function)(BATCH)
    assert_same(ns.sweep(function, BATCH, chunk=3, path=tmp_path), expected)
    assert sorted(written) == [0, 1, 2, 3]
    names = ["chunk_00000.npz", "chunk_00001.npz", "chunk_00002.npz", "chunk_00003.npz", "failures.json", "sweep.json"]
    assert sorted(f.name for f in tmp_path.iterdir()) == names
    assert json.loads((tmp_path / "sweep.json").read_text())["chunk"] == 3
    written.clear()
    assert_same(ns.sweep(function, BATCH, path=tmp_path), expected)  # with the chunk of the directory
    assert written == []
    for k in (1, 3):
        (tmp_path / names[k]).unlink()
    assert_same(ns.sweep(function, BATCH, path=tmp_path), expected)
    assert sorted(written) == [1, 3]


def test_interrupted_sweep_goes_on(tmp_path, monkeypatch, written):
    recorded = Store.write

    def interrupted(self, k, leaves):
        if len(written) == 2:
            raise OSError("disk full")
        recorded(self, k, leaves)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "write", interrupted)
        with pytest.raises(OSError, match="disk full"):
            ns.sweep(function, BATCH, chunk=3, path=tmp_path, workers=1)
    assert written == [0, 1]
    assert not list(tmp_path.glob("*.tmp"))
    assert_same(ns.sweep(function, BATCH, chunk=3, path=tmp_path, workers=1), jax.vmap(function)(BATCH))
    assert written == [0, 1, 2, 3]


def test_damaged_chunks_are_computed_again(tmp_path, written):
    expected = ns.sweep(function, BATCH, chunk=3, path=tmp_path)
    files = [tmp_path / f"chunk_0000{k}.npz" for k in range(4)]
    content = files[0].read_bytes()
    files[0].write_bytes(content[: len(content) // 2])  # cut off
    flipped = bytearray(files[1].read_bytes())
    place = flipped.find(np.asarray(expected["x"][3, 1]).tobytes())
    flipped[place] ^= 1  # one bit of one number
    files[1].write_bytes(flipped)
    files[2].write_bytes(files[3].read_bytes())  # another shape
    written.clear()
    assert_same(ns.sweep(function, BATCH, path=tmp_path), expected)
    assert sorted(written) == [0, 1, 2]


def test_chunks_of_another_sweep_do_not_count(tmp_path):
    ns.sweep(lambda x: x, np.arange(4.0), chunk=2, path=tmp_path)
    (tmp_path / "sweep.json").unlink()
    np.testing.assert_array_equal(ns.sweep(lambda x: -x, np.arange(4.0), chunk=2, path=tmp_path), -np.arange(4.0))


def test_directory_of_another_sweep_is_refused(tmp_path):
    x, table = np.arange(6.0), np.arange(2000.0)

    def with_constants(table, slope=2.0):
        """The table is a constant of an inner program, not of the outer one."""
        return lambda x: jax.jit(lambda y: jnp.sum(jnp.asarray(table)) + slope * y)(x)

    ns.sweep(with_constants(table), x, chunk=2, path=tmp_path)
    ns.sweep(with_constants(table.copy()), jnp.asarray(x), path=tmp_path)  # the same in other objects
    changed = table.copy()
    changed[1000] += 1e-9
    for fn in (with_constants(changed), with_constants(table, slope=2.5), lambda x: x):
        with pytest.raises(ValueError, match=r"3 chunks of another sweep: fn changed\. Give another path"):
            ns.sweep(fn, x, path=tmp_path)
    with pytest.raises(ValueError, match=r"batch changed\."):
        ns.sweep(with_constants(table), x + 1e-9, path=tmp_path)
    with pytest.raises(ValueError, match="lanes is 6 there and 7 here"):
        ns.sweep(with_constants(table), np.arange(7.0), path=tmp_path)
    with pytest.raises(ValueError, match=r"chunk is 2 there and 3 here.*leave chunk out"):
        ns.sweep(with_constants(table), x, chunk=3, path=tmp_path)


SIMULATION = """
import jax, jax.numpy as jnp, numpy as np
import jaxns as ns
from jaxns.sweeps.store import fingerprint

jax.config.update("jax_enable_x64", True)
ball = ns.models.bouncing_ball()

def run(e_N):
    return ns.simulate(ball.system.with_params(e_N=e_N), ns.Moreau(), ball.q0, ball.u0, dt=0.05, num_steps=12)

print(fingerprint(run, [np.arange(4.0)], jax.tree.structure(0.0)))
"""


def test_fingerprint_of_a_simulation_is_the_same_in_all_processes():
    """Addresses and the order of sets change from process to process."""
    command, seeds = [sys.executable, "-c", SIMULATION], ("1", "2")
    processes = [
        subprocess.Popen(command, env={**ENVIRONMENT, "PYTHONHASHSEED": s}, stdout=PIPE, text=True) for s in seeds
    ]
    one, other = (p.communicate(timeout=HANGING)[0] for p in processes)
    assert "'fn': '" in one
    assert one == other


def test_broken_chunk_is_named_and_a_smaller_one_can_follow(tmp_path):
    def refuse_large(x):
        if np.ndim(x) and len(x) > 2:
            raise MemoryError("too large")
        return 2.0 * x

    def fn(x):
        return jax.pure_callback(refuse_large, jax.ShapeDtypeStruct((), x.dtype), x, vmap_method="broadcast_all")

    with pytest.raises(ns.SweepError, match=r"chunk 0 \(lanes 0 to 2\)(.|\n)*smaller chunk than 3"):
        ns.sweep(fn, np.arange(7.0), chunk=3, workers=1, path=tmp_path)
    result = ns.sweep(fn, np.arange(7.0), chunk=2, workers=1, path=tmp_path)
    np.testing.assert_array_equal(result, 2.0 * np.arange(7.0))


# Failed lanes -------------------------------------------------------------------------------------------------------


def test_lanes_that_are_not_finite_are_recorded(tmp_path):
    x = np.array([1.0, -1.0, 4.0, 0.0, 9.0])
    with pytest.warns(ns.SweepWarning, match=r"2 of 5 lanes failed: 1 \(not finite\), 3.*failures\.json") as caught:
        result = ns.sweep(lambda x: {"n": 1, "y": jnp.stack([jnp.sqrt(x), 1.0 / x])}, x, chunk=2, path=tmp_path)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(ns.failed_lanes(result), [False, True, False, True, False])
    record = json.loads((tmp_path / "failures.json").read_text())
    assert record == {"failed": [{"lane": 1, "reason": "not finite"}, {"lane": 3, "reason": "not finite"}]}


def test_failed_trajectories_are_recorded_with_their_status(tmp_path):
    ball = ns.models.bouncing_ball()

    def run(e_N):
        system = ball.system.with_params(e_N=e_N)
        return ns.simulate(system, ns.Moreau(), ball.q0, ball.u0, dt=0.05, num_steps=12)

    e_N = jnp.array([0.0, 0.5, jnp.nan, 1.0, 0.2])
    with pytest.warns(
        ns.SweepWarning, match=r"1 of 5 lanes failed: 2 \(status 7: a step size, an initial state, a coefficient"
    ):
        traj = ns.sweep(run, e_N, chunk=2, path=tmp_path)
    assert_same(traj, jax.vmap(run)(e_N))
    np.testing.assert_array_equal(ns.failed_lanes(traj), ~np.asarray(traj.ok))
    (failed,) = json.loads((tmp_path / "failures.json").read_text())["failed"]
    assert failed == {"lane": 2, "reason": f"status 7: {ns.Status.BAD_INPUT.message}"}


# Several devices ----------------------------------------------------------------------------------------------------

ON_A_MESH = """
import sys
import jax, jax.numpy as jnp, numpy as np
import jaxns as ns

jax.config.update("jax_enable_x64", True)
x = jnp.linspace(0.0, 3.0, 21)

def fn(x):
    count, y = jax.lax.while_loop(lambda s: s[1] < 10.0, lambda s: (s[0] + 1, 1.3 * s[1]), (0, 1.0 + x))
    return count, jnp.stack([jnp.sin(y), y])

expected = jax.vmap(fn)(x)
for mesh in (jax.make_mesh((8,), ("batch",)), jax.make_mesh((4, 2), ("x", "y"))):
    for chunk in (None, 5, 16, 100):
        result = ns.sweep(fn, x, chunk=chunk, mesh=mesh)
        for r, e in zip(result, expected):
            np.testing.assert_allclose(r, e, rtol=1e-12)
# Begun on one device, finished on eight, which do not divide its chunk.
result = ns.sweep(fn, x, chunk=5, path=sys.argv[1])
from pathlib import Path
(Path(sys.argv[1]) / "chunk_00002.npz").unlink()
np.testing.assert_array_equal(ns.sweep(fn, x, mesh=mesh, path=sys.argv[1])[0], expected[0])
print("finished")
"""


def test_mesh_of_eight_devices(tmp_path):
    environment = {**ENVIRONMENT, "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    command = [sys.executable, "-c", ON_A_MESH, tmp_path / "sweep"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANGING, check=False)
    assert result.returncode == 0, result.stderr
    assert "finished" in result.stdout


# Several processes --------------------------------------------------------------------------------------------------

ONE_OF_TWO = """
import sys, time
import jax, jax.numpy as jnp, numpy as np
import jaxns as ns
from jaxns.sweeps.store import Store

port, process, folder, stops_after = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
jax.config.update("jax_enable_x64", True)
jax.distributed.initialize(
    f"127.0.0.1:{port}", 2, process, initialization_timeout=3600, heartbeat_timeout_seconds=10, shutdown_timeout_seconds=20
)
write = Store.write

def slow(self, k, leaves):
    write(self, k, leaves)
    if k == stops_after:
        time.sleep(3600)

Store.write = slow
x = jnp.linspace(0.0, 1.0, 23)

def fn(x):
    return {"sin": jnp.sin(x), "powers": x ** jnp.arange(5)}

def message(**arguments):
    try:
        ns.sweep(fn, x, **arguments)
    except ValueError as error:
        return str(error)

assert "2 processes share this sweep" in message()
assert "devices of other processes" in message(path=folder, mesh=jax.sharding.Mesh(jax.devices(), ("batch",)))
result = ns.sweep(fn, x, chunk=2, path=folder, mesh=jax.sharding.Mesh(jax.local_devices(), ("batch",)))
for name, expected in jax.vmap(fn)(x).items():
    np.testing.assert_allclose(result[name], expected, rtol=1e-12)
print("finished")
"""


def start_two(folder: Path, stops_after: int) -> list[subprocess.Popen[str]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    return [
        subprocess.Popen(
            [sys.executable, "-c", ONE_OF_TWO, port, str(process), folder, str(stops_after)],
            env=ENVIRONMENT,
            stdout=PIPE,
            stderr=PIPE,
            text=True,
        )
        for process in (0, 1)
    ]


def test_two_processes_go_on_after_one_was_killed(tmp_path):
    """Process 1 stops for good after its second chunk; process 0 writes all of its own, and waits for the rest."""
    folder = tmp_path / "sweep"
    first = start_two(folder, stops_after=3)
    try:
        limit = time.monotonic() + HANGING
        while not all((folder / name).exists() for name in ("chunk_00003.npz", "chunk_00010.npz")):
            assert all(p.poll() is None for p in first), [p.communicate() for p in first]
            assert time.monotonic() < limit
            time.sleep(0.02)
        first[1].kill()
        first[0].communicate(timeout=HANGING)  # jax.distributed notices the death and ends the other one: no hang
        assert first[0].returncode != 0
    finally:
        for process in first:
            process.kill()
            process.communicate()
    before = {f.name: os.stat(f).st_mtime_ns for f in folder.glob("chunk_*.npz")}
    assert set(before) == {f"chunk_{k:05d}.npz" for k in (0, 2, 4, 6, 8, 10, 1, 3)}

    second = start_two(folder, stops_after=-1)
    try:
        for process in second:
            output, errors = process.communicate(timeout=HANGING)
            assert process.returncode == 0, errors
            assert "finished" in output
    finally:
        for process in second:
            process.kill()
            process.communicate()
    after = {f.name: os.stat(f).st_mtime_ns for f in folder.glob("chunk_*.npz")}
    assert len(after) == 12
    assert before.items() <= after.items()


# Wrong input --------------------------------------------------------------------------------------------------------

WRONG = {  # batch, further arguments, and what the message must say
    "no arrays": ({}, {}, "holds no arrays"),
    "empty": (jnp.zeros((0, 2)), {}, "batch is empty"),
    "numbers": ({"e": [0.1, 0.2]}, {}, r"batch\['e'\]\[0\] is a single number, 0\.1; .* jnp\.asarray"),
    "sizes": ({"a": jnp.ones(3), "b": jnp.ones((4, 2))}, {}, r"batch\['a'\]: 3, batch\['b'\]: 4"),
    "chunk": (jnp.ones(3), {"chunk": 0}, "chunk must be a whole number from 1 on, got 0"),
    "fraction": (jnp.ones(3), {"chunk": 1.5}, "chunk must be a whole number from 1 on, got 1.5"),
    "workers": (jnp.ones(3), {"workers": 0}, "workers must be a whole number from 1 on, got 0"),
    "path": (jnp.ones(3), {"path": __file__}, "must be a directory"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_input_is_explained(what):
    batch, arguments, message = WRONG[what]
    with pytest.raises(ValueError, match=message):
        ns.sweep(lambda x: x, batch, **arguments)


def test_under_a_trace_vmap_is_recommended():
    x = jnp.arange(3.0)
    for transform in (jax.jit, jax.vmap):
        with pytest.raises(TypeError, match=r"use jax\.vmap\(fn\)\(batch\)"):
            transform(lambda y: ns.sweep(lambda x: x, y))(x[None])
        with pytest.raises(TypeError, match=r"use jax\.vmap\(fn\)\(batch\)"):
            transform(lambda y: ns.sweep(lambda x: x * y, x))(x)
