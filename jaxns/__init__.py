"""jaxns: a differentiable simulator for mechanical systems with impacts and friction.

`__init__.pyi` lists the public names, for readers, for type checkers and for this file. Each is imported when it is first
used, so that `import jaxns` costs little beside `import jax`.
"""

import ast
import importlib
import importlib.util
from pathlib import Path
from typing import Any

from .host.distributions import warn_of_namesake

__version__ = "0.1.0"


def _places() -> dict[str, str | None]:
    """Public names and the modules they come from; None where the name is that of a module of this package."""
    tree = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = (node for node in tree.body if isinstance(node, ast.ImportFrom))
    return {alias.name: node.module for node in imports for alias in node.names}


_PLACES = _places()
__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    module = _PLACES.get(name)
    if module is not None:  # as `from .module import name`
        value = getattr(__import__(module, globals(), fromlist=(name,), level=1), name)
        globals()[name] = value
        return value
    if name in _PLACES or (not name.startswith("_") and importlib.util.find_spec(f"{__name__}.{name}")):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


warn_of_namesake(Path(__file__).parents[1])
