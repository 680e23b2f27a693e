"""Sphinx's configuration of the documentation site, which `python tools/build_site.py` builds."""

from kvsweep import __version__

project = "kvsweep"
author = "kvsweep maintainers"
copyright = author
version = release = __version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "numpydoc"]
root_doc = "index"
exclude_patterns: list[str] = []

# Notebooks are shown as they are: `.ci/run` has just executed them.
nb_execution_mode = "off"
nb_merge_streams = True
myst_enable_extensions = ["dollarmath", "colon_fence", "attrs_block"]
myst_heading_anchors = 4
# Words that a git host shows as they are; TOML's `#:schema` and prompts of consoles are known.
highlight_language = "none"
suppress_warnings = ["myst.header"]

numpydoc_show_class_members = False
autodoc_typehints = "none"
default_role = "code"

html_theme = "pydata_sphinx_theme"
html_title = "kvsweep"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": {"reference/keys": [], "reference/variables": []},
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
}
