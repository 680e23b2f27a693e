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
    from collections.abc import Callable

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


class Pages:
    """The pages of one widget: it may be shown several times.

    Parameters
    ----------
    subject : Subject
        What is explored.
    send : callable (dict)
        Sends a message to all of them; each takes those with its name as ``view``.
    """

    def __init__(self, subject: Subject, send: Callable[[dict[str, Any]], None]) -> None:
        self._subject = subject
        self._send = send
        self.workers: dict[str, Worker] = {}

    def take(self, content: Any) -> None:
        """Take a message of a page; one that is none is refused and told."""
        message = dict(content) if isinstance(content, dict) else {}
        view, kind = message.pop("view", None), message.get("kind")
        if not isinstance(view, str) or len(view) > MAX_NAME:
            self._refuse("page: which is it?")
        elif kind == "open":
            self._open(view)
        elif kind == "close":
            self._end(view)
        elif view in self.workers:
            try:
                self.workers[view].ask(read_message(message))
            except InputError as error:
                self._refuse(str(error), view=view)

    def close(self) -> None:
        """End the work of all."""
        for view in list(self.workers):
            self._end(view)

    def _open(self, view: str) -> None:
        def tell(answer: dict[str, Any]) -> None:
            self._send({**answer, "view": view})

        self._end(view)
        while len(self.workers) >= MAX_PAGES:  # those of pages that went without a word
            self._end(next(iter(self.workers)))
        self.workers[view] = Worker(self._subject, tell)
        tell(hello(self._subject))

    def _end(self, view: str) -> None:
        worker = self.workers.pop(view, None)
        if worker is not None:
            worker.close()

    def _refuse(self, text: str, **of: str) -> None:
        self._send({"kind": "refused", "generation": -1, "text": text, **of})


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
            self.pages = Pages(subject, self.send)
            self.on_msg(lambda widget, content, buffers: self.pages.take(content))

        def close(self) -> None:
            """End the work and take the pages away."""
            self.pages.close()
            super().close()

    return Explorer
