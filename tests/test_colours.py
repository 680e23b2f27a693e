"""Colours of figures, as those see them who lack one kind of cone."""

import re
from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from kvsweep.plot.medium import DARK, LIGHT
from kvsweep.plot.page import text
from kvsweep.plot.timeline_figure import DARK_LINES, DARK_PHASES, LIGHT_LINES, LIGHT_PHASES

# G. M. Machado et al., "A Physiologically-based Model for Simulation of Color Vision Deficiency",
# IEEE TVCG 15 (2009), at severity 1; for linear RGB.
SIGHTS = {
    "all cones": np.eye(3),
    "no L": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
             [-0.003882, -0.048116, 1.051998]],
    "no M": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
             [-0.011820, 0.042940, 0.968881]],
    "no S": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
             [0.004733, 0.691367, 0.303900]],
}  # fmt: skip
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
LEAST = 9.0
"""Distance in CIE L*a*b*; 2.3 is just noticed."""


def lab(colour, sight):
    """Return CIE L*a*b* of a colour as a kind of eye sees it."""
    given = np.array(to_rgb(colour))
    linear = np.where(given <= 0.04045, given / 12.92, ((given + 0.055) / 1.055) ** 2.4)
    white = XYZ.sum(axis=1)
    share = XYZ @ np.clip(sight @ linear, 0, 1) / white
    x, y, z = np.where(share > 0.008856, np.cbrt(share), 7.787 * share + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize(
    "colours",
    [LIGHT.colours, DARK.colours, LIGHT_PHASES, DARK_PHASES, LIGHT_LINES, DARK_LINES],
    ids=["light", "dark", "light phases", "dark phases", "light lines", "dark lines"],
)
def test_no_two_colours_look_alike_to_anybody(colours, sight):
    seen = [lab(colour, np.array(SIGHTS[sight])) for colour in colours]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > LEAST


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize(
    ("lines", "phases"), [(LIGHT_LINES, LIGHT_PHASES), (DARK_LINES, DARK_PHASES)]
)
def test_no_line_of_a_timeline_looks_like_one_of_its_phases(lines, phases, sight):
    lines, phases = ([lab(c, np.array(SIGHTS[sight])) for c in each] for each in (lines, phases))
    assert min(np.linalg.norm(a - b) for a in lines for b in phases) > LEAST


def test_the_page_has_the_colours_of_the_figure():
    css = text("life.css")
    for n, colours in enumerate(zip(LIGHT_LINES, DARK_LINES, strict=True)):
        assert f".u{n} {{ --l: light-dark({', '.join(colours)}); }}" in css
    for n, colours in enumerate(zip(LIGHT_PHASES, DARK_PHASES, strict=True)):
        assert f".p{n} {{ --c: light-dark({', '.join(colours)}); }}" in css


def test_colours_that_do_look_alike_are_found():
    seen = [lab(colour, np.array(SIGHTS["no M"])) for colour in ("#8d6e00", "#a05a00")]
    assert np.linalg.norm(seen[0] - seen[1]) < LEAST


def test_lines_of_the_page_differ_in_more_than_their_colour():
    css = text("life.css")
    dashes = re.findall(r"^svg\.life \.used\.u(\d) \{ stroke-dasharray: ([\d. ]+); \}$", css, re.M)
    assert [n for n, _ in dashes] == ["1", "2", "3"]
    assert len({pattern for _, pattern in dashes}) == len(LIGHT_LINES) - 1
    assert all(f".life-key .u{n} {{" in css for n, _ in dashes)
