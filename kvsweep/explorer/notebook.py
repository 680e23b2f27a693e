"""The page as a widget of a notebook: the same script, by the notebook's own messages."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from kvsweep.arguments import checked
from kvsweep.config import Sweep
from kvsweep.errors import InputError
from kvsweep.explorer import pages
from kvsweep.explorer.hello import hello
from kvsweep.explorer.messages import read_message
from kvsweep.explorer.of_store import OfStore
from kvsweep.explorer.of_sweep import OfSweep
from kvsweep.explorer.worker import Worker

if TYPE_CHECKING:
    import xarray as xr

    from kvsweep.explorer.subject import Subject

MISSING = "explore: anywidget is not installed: pip install 'kvsweep[explore]'"


@checked
def explore(explored: Sweep | xr.Dataset) -> Any:
    """Explore a sweep, or results, in a notebook: sliders for the settings, curves that follow.

    Parameters
    ----------
    explored : Sweep or xr.Dataset
        What `kvsweep.load_sweep` or `kvsweep.open_results` returns. Of a sweep all settings can be
        moved, and are simulated in this process; of results the values of their axes.

    Returns
    -------
    anywidget.AnyWidget
        A notebook shows it. Its work ends when its output is closed, or by its own ``close()``.

    Raises
    ------
    InputError
        If there is no numeric axis to draw curves along, or anywidget is not installed.

    Examples
    --------
    >>> import kvsweep
    >>> page = kvsweep.explore(kvsweep.load_sweep("small.toml"))
    >>> page.close()
    """
    if isinstance(explored, Sweep):
        subject: Subject = OfSweep(explored)
    else:
        subject = OfStore(explored, str(explored.encoding.get("source", "results")))
    return _widget()(subject)


@cache
def _widget() -> Any:
    """Return the class of the widget, which is made where anywidget is there."""
    try:
        import anywidget
    except ModuleNotFoundError:
        raise InputError(MISSING) from None

    class Explorer(anywidget.AnyWidget):  # type: ignore[misc]
        """A page in the output of a cell; see `explore`."""

        _esm = pages.script()
        _css = pages.text("style.css")

        def __init__(self, subject: Subject) -> None:
            super().__init__()
            self._subject = subject
            self._worker: Worker | None = None
            self.on_msg(self._take)

        def _take(self, _widget: Any, content: Any, _buffers: Any) -> None:
            """Take a message of the page; one that is none is refused and told."""
            kind = content.get("kind") if isinstance(content, dict) else None
            if kind == "open":
                self._end()
                self._worker = Worker(self._subject, self.send)
                self.send(hello(self._subject))
            elif kind == "close":
                self._end()
            elif self._worker is not None:
                try:
                    self._worker.ask(read_message(content))
                except InputError as error:
                    self.send({"kind": "refused", "generation": -1, "text": str(error)})

        def _end(self) -> None:
            if self._worker is not None:
                self._worker.close()
                self._worker = None

        def close(self) -> None:
            """End the work and take the page away."""
            self._end()
            super().close()

    return Explorer
