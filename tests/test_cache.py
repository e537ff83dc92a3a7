"""Compiled programs on disk: in which folder, all of them, and never in the way of a run."""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.compilation_cache import compilation_cache

import jaxns as ns
from jaxns.command_line import main as cli
from jaxns.host.cache import no_cache

SETTINGS = (
    "jax_compilation_cache_dir",
    "jax_enable_compilation_cache",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_min_entry_size_bytes",
)


@pytest.fixture(autouse=True)
def as_at_the_start(monkeypatch, tmp_path):
    """The settings of a fresh process, in which nobody has chosen a folder; those of the tests come back afterwards."""
    before = {name: getattr(jax.config, name) for name in SETTINGS}
    monkeypatch.delenv("JAXNS_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "of the user"))
    jax.config.update("jax_enable_compilation_cache", True)
    jax.config.update("jax_compilation_cache_dir", None)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 1.0)
    compilation_cache.reset_cache()
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def programs(folder: Path) -> int:
    return len(list(folder.glob("*-cache")))


def compile_something() -> None:
    """A small program that no process has in its memory."""
    jax.clear_caches()
    jax.block_until_ready(jax.jit(lambda x: jnp.sin(x) + 1.5)(jnp.arange(3.0)))


USERS = {  # platform, environment, folder
    "linux, chosen": ("linux", {"XDG_CACHE_HOME": "/there"}, "/there/jaxns"),
    "linux": ("linux", {"XDG_CACHE_HOME": "", "HOME": "/home/me"}, "/home/me/.cache/jaxns"),
    "mac": ("darwin", {"HOME": "/home/me"}, "/home/me/Library/Caches/jaxns"),
    "windows": ("win32", {"LOCALAPPDATA": "/data/local"}, "/data/local/jaxns"),
    "variable": ("linux", {"JAXNS_CACHE": "/else/where"}, "/else/where"),
    "variable, empty": ("linux", {"JAXNS_CACHE": ""}, None),
    "variable, 0": ("linux", {"JAXNS_CACHE": "0"}, None),
    "variable, off": ("linux", {"JAXNS_CACHE": "OFF"}, None),
}


@pytest.mark.parametrize("user", USERS)
def test_folder_of_the_user(user, monkeypatch):
    platform, environment, folder = USERS[user]
    monkeypatch.setattr(sys, "platform", platform)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(Path, "mkdir", lambda *arguments, **options: None)
    monkeypatch.setattr("os.access", lambda *arguments: True)
    assert ns.cache() == (Path(folder) if folder else None)
    assert jax.config.jax_compilation_cache_dir == folder


def test_every_program_is_kept_in_the_folder_that_was_named_last(tmp_path):
    """Also a small one, which is compiled in milliseconds, and after others were kept elsewhere."""
    for name in ("one", "two"):
        assert ns.cache(tmp_path / name) == tmp_path / name
        compile_something()
        assert programs(tmp_path / name) > 0
    before = programs(tmp_path / "two")
    compile_something()  # found there
    assert programs(tmp_path / "two") == before


def test_a_folder_that_jax_was_given_stays(tmp_path):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    assert ns.cache() == tmp_path
    assert jax.config.jax_persistent_cache_min_compile_time_secs == 1.0
    assert ns.cache(tmp_path / "other") == tmp_path / "other"  # unless another one is named


def test_no_cache_keeps_nothing(tmp_path):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    no_cache()
    compile_something()
    assert programs(tmp_path) == 0


def test_a_folder_that_cannot_be_written_breaks_no_run(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.chdir(tmp_path)
    run = ["run", "bouncing-ball", "--integrator", "moreau", "--t1", "0.05", "--cache", "file/folder"]
    with pytest.warns(UserWarning, match=r"programs are not kept: .*file/folder.*JAXNS_CACHE=off"):
        assert cli.main(run) == 0
    assert "100.0%" in capsys.readouterr().out
    assert jax.config.jax_compilation_cache_dir is None


def test_command_line_uses_the_folder_of_the_user_unless_told_otherwise(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    jax.clear_caches()
    run = ["run", "bouncing-ball", "--integrator", "moreau", "--t1", "0.05"]
    assert cli.main([*run, "--no-cache"]) == 0
    assert not (tmp_path / "of the user").exists()
    jax.config.update("jax_enable_compilation_cache", True)
    compilation_cache.reset_cache()
    jax.clear_caches()
    assert cli.main(run) == 0
    assert programs(tmp_path / "of the user" / "jaxns") > 0
    assert cli.main([*run, "--cache", "there"]) == 0
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "there")
