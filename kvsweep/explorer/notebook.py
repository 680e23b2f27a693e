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
from kvsweep.explorer.subject import MAX_PAGES
from kvsweep.explorer.worker import Worker
from kvsweep.limits import MAX_NAME

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
        _css = pages.style()

        def __init__(self, subject: Subject) -> None:
            super().__init__()
            self._subject = subject
            self._workers: dict[str, Worker] = {}
            self.on_msg(self._take)

        def _take(self, _widget: Any, content: Any, _buffers: Any) -> None:
            """Take a message of a page; one that is none is refused and told."""
            message = dict(content) if isinstance(content, dict) else {}
            view, kind = message.pop("view", None), message.get("kind")
            if not isinstance(view, str) or len(view) > MAX_NAME:
                self.send({"kind": "refused", "generation": -1, "text": "page: which is it?"})
                return

            def tell(answer: dict[str, Any]) -> None:
                self.send({**answer, "view": view})

            if kind == "open":
                self._end(view)
                while len(self._workers) >= MAX_PAGES:  # those of pages that went without a word
                    self._end(next(iter(self._workers)))
                self._workers[view] = Worker(self._subject, tell)
                tell(hello(self._subject))
            elif kind == "close":
                self._end(view)
            elif view in self._workers:
                try:
                    self._workers[view].ask(read_message(message))
                except InputError as error:
                    tell({"kind": "refused", "generation": -1, "text": str(error)})

        def _end(self, view: str) -> None:
            worker = self._workers.pop(view, None)
            if worker is not None:
                worker.close()

        def close(self) -> None:
            """End the work and take the pages away."""
            for view in list(self._workers):
                self._end(view)
            super().close()

    return Explorer
