"""Sweeps: one function over a large batch, in chunks, on all cores, devices and processes."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ..host.compiler import compiler_options
from ..host.progress import tqdm_bar
from ..model.values import is_concrete
from ..simulation.simulate import Trajectory
from ..solve.status import Status
from ..trace.digest import is_key
from .store import Store, fingerprint

CPU_LANES = 64  # lanes of one call on one device: their working set stays in the cache of one core
OTHER_LANES = 4096  # on accelerators, which need many lanes to be busy
PATIENCE = 0.5  # seconds between two looks for chunks of other processes
_TRACED = (
    "sweep: the batch, or what fn closes over, is traced by jit, vmap or grad, but a sweep runs chunk by chunk outside of "
    "them. Inside a transformation use jax.vmap(fn)(batch)."
)


class SweepError(RuntimeError):
    """A chunk of a sweep could not be computed; the message names it and the lanes in it.

    >>> issubclass(SweepError, RuntimeError)
    True
    """


class SweepWarning(UserWarning):
    """Some lanes of a sweep failed.

    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     result = sweep(jnp.log, jnp.array([1.0, -1.0, 2.0]))
    >>> print(caught[0].message)
    sweep: 1 of 3 lanes failed: 1 (not finite); failed_lanes(result) finds them.
    """


def sweep(
    fn: Callable[[Any], Any],
    batch: Any,
    *,
    chunk: int | None = None,
    mesh: Mesh | None = None,
    path: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    progress: bool = False,
) -> Any:
    """The pytree that `jax.vmap(fn)(batch)` gives, computed chunk by chunk, for batches of any size.

    Main arguments:

    - fn: `(element) -> pytree of arrays`, pure; say, from parameters to a `Trajectory` or to a few numbers of it. As with
      `jax.jit`, the same function object is compiled once, also over several sweeps
    - batch: pytree of arrays (B, …); element b, called lane b, is the pytree of their b-th entries
    - path: directory in which every finished chunk is stored at once. The same call, made again, computes only the chunks
      that are missing or damaged. A directory of another sweep (another fn or batch, a changed constant that fn closes
      over; after an update also another version of jax or jaxns) is an error

    Other arguments:

    - chunk: lanes of one compiled call. Default: that of the directory, if it has one; else 64 for each CPU device, so that
      arrays stay in the cache, and 4096 for each GPU or TPU. The last chunk is filled up with copies of its last lane, so
      that one compilation serves all chunks
    - mesh: devices of this process to split every chunk over; its axes and their names do not matter. `chunk` is rounded up
      to a multiple of the number of devices. Without a mesh, the default device does all, with all cores of a CPU
    - workers: chunks that run at the same time, each in a thread. Default: one for each core of a CPU, else 1
    - progress: show a bar over the lanes

    Returns numpy arrays (B, …) in the memory of the host, so that results may be larger than the memory of a device.

    A lane fails when the status of a `Trajectory` in its result is not OK, or when any of its numbers is NaN or infinite.
    Failed lanes stay in the result and disturb no other lane: one `SweepWarning` counts them, `failed_lanes` finds them,
    and with `path` the file failures.json lists them with their reasons. If a whole chunk breaks off, for lack of memory
    say, `SweepError` is raised; finished chunks stay in the directory.

    Several processes, after `jax.distributed.initialize`, share the chunks between them: process p of n takes every n-th
    one, on its own devices. They meet in `path`, which all must see; each returns the whole result.

    >>> import jax.numpy as jnp
    >>> import jaxns as ns
    >>> ball = ns.models.bouncing_ball()
    >>> def height(e_N):
    ...     system = ball.system.with_params(e_N=e_N)
    ...     return ns.simulate(system, ns.Moreau(), ball.q0, ball.u0, dt=0.02, t1=0.8).q[-1, 1]
    >>> heights = ns.sweep(height, jnp.linspace(0.0, 1.0, 10), chunk=4)
    >>> heights.shape, bool(heights[-1] > heights[0])
    ((10,), True)
    """
    leaves, structure, lanes = _lanes(batch)
    _check(chunk, mesh, path, workers)
    devices = 1 if mesh is None else mesh.size
    on_cpu = (jax.default_backend() if mesh is None else mesh.devices.flat[0].platform) == "cpu"
    if workers is None:
        workers = (os.cpu_count() or 1) if on_cpu and mesh is None else 1
    if chunk is None:  # no worker of any process shall be without work
        usual = devices * (CPU_LANES if on_cpu else OTHER_LANES)
        size = min(usual, _ceil(lanes, workers * jax.process_count()))
    else:
        size = min(int(chunk), lanes)
    size = devices * _ceil(size, devices)
    store = None
    if path is not None:
        store = Store.open(Path(path), fingerprint(fn, leaves, structure), chunk, size)
        size = store.chunk
    chunks = Chunks(leaves, structure, lanes, size, mesh)
    traced = batched_program(fn, mesh).trace(chunks.arguments(0))
    if len(traced.jaxpr.in_avals) > len(leaves):  # traced values that fn closes over become further inputs
        raise TypeError(_TRACED)
    with tqdm_bar(total=lanes, unit="lane", desc="sweep", disable=not progress) as bar:
        result = _run(traced, chunks, workers, store, bar)
    _report(_failures(result), lanes, store)
    return result


def failed_lanes(result: Any) -> np.ndarray:
    """Which lanes of the result of a sweep failed, (B,) bool: a `Trajectory` whose status is not OK, or NaN or infinity.

    >>> import jax.numpy as jnp
    >>> failed_lanes({"x": jnp.array([1.0, jnp.nan, 3.0])})
    array([False,  True, False])
    """
    leaves = jax.tree.leaves(result)
    failed = np.zeros(len(leaves[0]) if leaves else 0, bool)
    failed[list(_failures(result))] = True
    return failed


def _failures(result: Any) -> dict[int, str]:
    """The failed lanes, in order, with the reason of each."""
    reasons: dict[int, str] = {}
    for part in jax.tree.leaves(result, is_leaf=lambda x: isinstance(x, Trajectory)):
        if isinstance(part, Trajectory):
            status = np.asarray(part.status).reshape(len(part.status), -1)
            for lane in np.flatnonzero(np.any(status != Status.OK, axis=1)):
                code = Status(int(status[lane][np.argmax(status[lane] != Status.OK)]))
                reasons.setdefault(int(lane), f"status {int(code)}: {code.message}")
    for leaf in jax.tree.leaves(result):
        if jnp.issubdtype(leaf.dtype, jnp.inexact):
            finite = np.all(np.isfinite(leaf), axis=tuple(range(1, leaf.ndim)))
            for lane in np.flatnonzero(~finite):
                reasons.setdefault(int(lane), "not finite")
    return dict(sorted(reasons.items()))


def _report(reasons: dict[int, str], lanes: int, store: Store | None) -> None:
    """Record failed lanes, and warn about them once."""
    record = "failed_lanes(result) finds them"
    if store is not None:
        if jax.process_index() == 0:
            store.write_failures(reasons)
        record = f"{store.failures} lists them"
    if reasons:
        first = ", ".join(f"{lane} ({reason})" for lane, reason in islice(reasons.items(), 3))
        more = ", …" if len(reasons) > 3 else ""
        warnings.warn(f"sweep: {len(reasons)} of {lanes} lanes failed: {first}{more}; {record}.", SweepWarning, 3)


def _lanes(batch: Any) -> tuple[list[Any], Any, int]:
    """Leaves of the batch on the host, its structure, and the number of lanes B."""
    if not is_concrete(batch):
        raise TypeError(_TRACED)
    leaves, structure = jax.tree.flatten(batch)
    if not leaves:
        raise ValueError("sweep: the batch holds no arrays; give a pytree of arrays (B, …) with a common leading axis.")
    sizes = {}
    for path, leaf in jax.tree.leaves_with_path(batch):
        name = f"batch{jax.tree_util.keystr(path)}"
        if np.ndim(leaf) == 0:
            raise ValueError(
                f"sweep: {name} is a single number, {leaf!r}; every leaf needs a leading batch axis. Use jnp.asarray for "
                "lists of numbers, and let fn close over what is the same in all lanes."
            )
        sizes[name] = np.shape(leaf)[0]
    if len(set(sizes.values())) > 1:
        text = ", ".join(f"{name}: {size}" for name, size in sizes.items())
        raise ValueError(f"sweep: all leaves of the batch need the same leading size, but they have {text}.")
    lanes = next(iter(sizes.values()))
    if lanes == 0:
        raise ValueError("sweep: the batch is empty (leading size 0); give at least one element.")
    return [leaf if is_key(leaf) else np.asarray(leaf) for leaf in leaves], structure, lanes


def _check(chunk: int | None, mesh: Mesh | None, path: Any, workers: int | None) -> None:
    for name, value in (("chunk", chunk), ("workers", workers)):
        if value is not None and (not isinstance(value, int | np.integer) or value < 1):
            raise ValueError(
                f"sweep: {name} must be a whole number from 1 on, got {value!r}; leave it out for a default."
            )
    if jax.process_count() == 1:
        return
    if path is None:
        raise ValueError(
            f"sweep: {jax.process_count()} processes share this sweep, but no path was given. Give path=, a directory that "
            "all of them see: they exchange their results there."
        )
    foreign = [] if mesh is None else [d for d in mesh.devices.flat if d.process_index != jax.process_index()]
    if foreign:
        raise ValueError(
            f"sweep: the mesh holds devices of other processes ({foreign[0]}). Each process computes its own chunks: give "
            'each a mesh of its own devices, jax.sharding.Mesh(jax.local_devices(), ("batch",)).'
        )


@dataclass(frozen=True)
class Chunks:
    """A batch, and how it is divided."""

    leaves: list[Any]  # each (B, …), on the host
    structure: Any
    lanes: int  # B
    size: int  # lanes of a chunk
    mesh: Mesh | None

    def __len__(self) -> int:
        return _ceil(self.lanes, self.size)

    def part(self, k: int) -> slice:
        """The lanes of chunk k."""
        return slice(k * self.size, min((k + 1) * self.size, self.lanes))

    def arguments(self, k: int) -> Any:
        """Chunk k of the batch, on its devices; its last lane repeated until all chunks and all devices have the same."""
        devices = 1 if self.mesh is None else self.mesh.size
        width = devices * _ceil(self.size, devices)
        index = np.minimum(k * self.size + np.arange(width), self.part(k).stop - 1)
        place = None if self.mesh is None else NamedSharding(self.mesh, PartitionSpec(self.mesh.axis_names))
        return jax.device_put(jax.tree.unflatten(self.structure, [leaf[index] for leaf in self.leaves]), place)


def _run(traced: Any, chunks: Chunks, workers: int, store: Store | None, bar: Any) -> Any:
    """All chunks: from the directory, computed here, or awaited from other processes."""
    shapes, structure = jax.tree.flatten(traced.out_info)
    results = [np.empty((chunks.lanes, *s.shape[1:]), s.dtype) for s in shapes]

    def place(k: int) -> list[np.ndarray]:
        """Where the results of chunk k go: views."""
        return [r[chunks.part(k)] for r in results]

    def finish(k: int, values: list[np.ndarray]) -> None:
        part = chunks.part(k)
        for result, value in zip(results, values, strict=True):
            result[part] = value
        bar.update(part.stop - part.start)

    missing = []
    for k in range(len(chunks)):
        stored = None if store is None else store.read(k, place(k))
        if stored is None:
            missing.append(k)
        else:
            finish(k, stored)
    mine = [k for k in missing if k % jax.process_count() == jax.process_index()]
    if mine:
        compiled = traced.lower().compile()  # once, before any thread needs it

        def compute(k: int, arguments: Any) -> list[np.ndarray]:
            part = chunks.part(k)
            try:
                values = [np.asarray(leaf)[: part.stop - part.start] for leaf in jax.tree.leaves(compiled(arguments))]
            except jax.errors.JaxRuntimeError as error:
                raise SweepError(_broken(k, part, chunks.size, store, error)) from error
            if store is not None:
                store.write(k, values)
            return values

        for k, values in in_threads(compute, ((k, chunks.arguments(k)) for k in mine), workers):
            finish(k, values)
    if store is not None:
        for k in sorted(set(missing) - set(mine)):
            finish(k, _await(store, k, place(k)))
    return jax.tree.unflatten(structure, results)


def batched_program(fn: Callable[[Any], Any], mesh: Mesh | None) -> Any:
    """fn over all lanes of a chunk; the same one for the same fn, so that a second sweep does not compile again."""
    try:
        return _remembered_program(fn, mesh)
    except TypeError:  # fn cannot be hashed
        return _remembered_program.__wrapped__(fn, mesh)


@lru_cache(maxsize=16)
def _remembered_program(fn: Callable[[Any], Any], mesh: Mesh | None) -> Any:
    """On a mesh each device has its own loops and waits for its own lanes only."""
    if mesh is None:
        return jax.jit(jax.vmap(fn), compiler_options=compiler_options())
    split = PartitionSpec(mesh.axis_names)
    on_mesh = jax.shard_map(jax.vmap(fn), mesh=mesh, in_specs=split, out_specs=split, check_vma=False)
    return jax.jit(on_mesh, compiler_options=compiler_options())


def in_threads(
    task: Callable[[int, Any], Any], jobs: Iterable[tuple[int, Any]], workers: int
) -> Iterator[tuple[int, Any]]:
    """(k, task(k, arguments)) for all jobs (k, arguments), as they finish.

    Arguments are made here and not in the threads, for settings such as `jax.enable_x64(True)` belong to one thread.
    """
    jobs = iter(jobs)
    running: dict[Future[Any], int] = {}
    with ThreadPoolExecutor(workers) as pool:
        while True:
            for k, arguments in islice(jobs, workers + 1 - len(running)):  # one more, so that no worker has to wait
                running[pool.submit(task, k, arguments)] = k
            if not running:
                return
            done = wait(running, return_when=FIRST_COMPLETED).done
            for future in sorted(done, key=running.__getitem__):  # the first failure is that of the first chunk
                yield running.pop(future), future.result()


def _await(store: Store, k: int, like: list[np.ndarray]) -> list[np.ndarray]:
    """Chunk k of another process, as soon as it is there.

    The file itself is the signal: a barrier would need a time limit longer than any sweep, and a network file system may
    show a file later than the barrier. If the other process dies, jax.distributed notices it and ends this one.
    """
    while (values := store.read(k, like)) is None:
        time.sleep(PATIENCE)
    return values


def _broken(k: int, part: slice, size: int, store: Store | None, error: Exception) -> str:
    kept = f" Finished chunks stay in {store.folder}; if there are any, that needs another path." if store else ""
    return (
        f"sweep: chunk {k} (lanes {part.start} to {part.stop - 1}) broke off: {error}\n"
        f"If memory ran out, call again with a smaller chunk than {size}.{kept}"
    )


def _ceil(a: int, b: int) -> int:
    return -(-a // b)
