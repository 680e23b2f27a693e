"""Tools are no part of the package: their tests find them here."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "tools"))
