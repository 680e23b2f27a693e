"""The version, as in pyproject.toml: what results and measurements say made them."""

__version__ = "0.1.0"
