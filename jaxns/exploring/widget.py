"""The widget of an exploration: carries messages between its page and the explorer."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import anywidget
import traitlets

from ..simulation.simulate import Trajectory
from . import code
from .explorer import Explorer

SCRIPT = files(__package__).joinpath("widget.js").read_text(encoding="utf-8")
STYLE = files(__package__).joinpath("widget.css").read_text(encoding="utf-8")


class Exploration(anywidget.AnyWidget):
    """Sliders, film and curves, from `ns.explore`."""

    _esm = SCRIPT
    _css = STYLE
    settings = traitlets.Dict().tag(sync=True)  # sliders, integrators, the page of the player
    values = traitlets.Dict().tag(sync=True)  # those of the last picture

    def __init__(self, explorer: Explorer):
        self.explorer = explorer
        super().__init__(settings=explorer.settings, values=explorer.start)
        self.on_msg(self._on_message)

    def _on_message(self, _: Any, message: dict[str, Any], buffers: Any) -> None:
        reply, numbers = self.explorer.answer(message)
        if message.get("kind") != "code":
            self.values = {**self.explorer.start, **message.get("values", {})}
        self.send(reply, [numbers])

    @property
    def code(self) -> str:
        """The code of the run that the page shows."""
        return code.written(self.explorer, self.values)

    @property
    def trajectory(self) -> Trajectory:
        """The run that the page shows."""
        return self.explorer.run(self.values)[1]
