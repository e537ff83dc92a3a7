"""Compiled programs on disk: a new process finds what an earlier one has compiled."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache

VARIABLE = "JAXNS_CACHE"  # a folder, or one of OFF
OFF = ("", "0", "off")


def cache(path: str | os.PathLike[str] | None = None) -> Path | None:
    """Keep every compiled program in a folder, and find it there the next time: in notebooks, the first thing to call.

    The folder is `path`; or else the one that JAX already uses (`JAX_COMPILATION_CACHE_DIR`), which stays as it is; or else
    that of the environment variable `JAXNS_CACHE` (`off` for none); or else `jaxns` in the user's cache folder
    (`XDG_CACHE_HOME` or `~/.cache` on Linux). It may be deleted at any time. Programs of other versions of JAX, of other
    processors and with other settings of the compiler do not mix.

    Returns the folder, or None where there is none: because it is switched off, or, with a warning, because it cannot be
    written. The setting holds for the whole process; importing jaxns alone changes nothing.

    >>> import jaxns as ns
    >>> folder = ns.cache()
    """
    of_jax: str | None = getattr(jax.config, "jax_compilation_cache_dir", None)
    if path is None and of_jax:
        return Path(of_jax)
    folder = _chosen() if path is None else Path(path).absolute()
    if folder is None:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError("no permission to write")
    except OSError as error:
        message = f"compiled programs are not kept: {folder}: {error}. Give another folder, or set {VARIABLE}=off"
        warnings.warn(message, stacklevel=2)
        return None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    # JAX keeps only what took a second to compile, which on a fast machine is nothing.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    compilation_cache.reset_cache()  # else a folder that was used before stays in use
    return folder


def no_cache() -> None:
    """Neither read nor keep compiled programs in this process, whatever is set elsewhere."""
    jax.config.update("jax_enable_compilation_cache", False)
    compilation_cache.reset_cache()


def _chosen() -> Path | None:
    """The folder of the environment variable, or of the user."""
    chosen = os.environ.get(VARIABLE)
    if chosen is not None:
        return None if chosen.lower() in OFF else Path(chosen).absolute()
    if sys.platform == "win32":
        parent = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        parent = "~/Library/Caches"
    else:
        parent = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(parent).expanduser() / "jaxns"
