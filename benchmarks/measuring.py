"""What the benchmarks share: virtual devices, timing, and stored results. Import it before jax."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

CORES = os.cpu_count() or 1
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={CORES}"
os.environ["JAX_ENABLE_X64"] = "1"

import jax

REPEATS = 5


def measure(function: Any, *arguments: Any, repeats: int = REPEATS) -> tuple[float, float, Any]:
    """Compile seconds (trace, lower, compile), best run seconds, result."""
    begin = time.perf_counter()
    compiled = jax.jit(function).lower(*arguments).compile()
    compile_seconds = time.perf_counter() - begin
    result = jax.block_until_ready(compiled(*arguments))
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        jax.block_until_ready(compiled(*arguments))
        seconds.append(time.perf_counter() - begin)
    return compile_seconds, min(seconds), result


def report(name: str, results: dict[str, Any], update: bool = False) -> None:
    """Print the results, and store them with commit and machine; on `update` what was stored before stays."""
    width = max(len(key) for key in results)
    for key, value in results.items():
        print(f"{key:{width}s} {value:10.3f}")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    record = {"commit": commit, "machine": platform.processor() or platform.machine(), "cores": CORES, **results}
    file = Path(__file__).parent / "results" / f"{name}.json"
    file.parent.mkdir(exist_ok=True)
    before = json.loads(file.read_text()) if update and file.exists() else {}
    file.write_text(json.dumps(before | record, indent=2))
