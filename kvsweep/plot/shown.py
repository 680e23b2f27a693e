"""Figures that notebooks show."""

from __future__ import annotations

from matplotlib.figure import Figure


class ShownFigure(Figure):
    """A figure that notebooks show, with or without ``%matplotlib inline``.

    By themselves they show those of pyplot, which keeps each until it is closed.
    """

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """Return a PNG, as wide in a browser as on paper."""
        from kvsweep.plot.saving import PIXELS, as_png  # which draws in the style of figures

        width, height = (round(PIXELS * inches) for inches in self.get_size_inches())
        return as_png(self), {"width": width, "height": height}
