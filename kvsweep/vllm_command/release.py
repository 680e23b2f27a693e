"""Which release of vLLM an image, or what installs vLLM, says that it has."""

from __future__ import annotations

import re
from typing import NamedTuple

from kvsweep.errors import clip, escaped
from kvsweep.vllm_command.options import RELEASE

_VERSION = r"(?P<{}>\d+\.\d+(?:\.\d+)*(?:\.?(?:post|rc|dev)\d+)?)"
# LMCache's images of the name have LMCache's own releases as tags.
_SAID = re.compile(
    rf"(?:[\w.-]+(?::\d+)?/)*(?<!lmcache/)vllm-openai(?:-\w+)*:v?{_VERSION.format('tag')}[\w.+-]*"
    rf"|(?:[\w.-]+(?::\d+)?/)*rocm/vllm(?:-\w+)*:[\w.-]*vllm_{_VERSION.format('rocm')}[\w.+-]*"
    rf"|(?<![\w.-])vllm(?:\[[\w,-]*\])?(?:==|@)v?{_VERSION.format('package')}[\w.+]*"
)


class Release(NamedTuple):
    """A release of vLLM.

    Attributes
    ----------
    said : str
        What says so, as it is written.
    version : str
        Which one it is.
    """

    said: str
    version: str


def release_of(text: str) -> Release | None:
    """Return the release that a text says last; None: it says none.

    Parameters
    ----------
    text : str
        The name of an image, a word of a command, or an instruction.

    Examples
    --------
    >>> release_of("vllm/vllm-openai:v0.8.5-x86_64").version, release_of("vllm/vllm-openai:latest")
    ('0.8.5', None)
    >>> release_of("pip install 'vllm[audio]==0.11.0' torch")
    Release(said='vllm[audio]==0.11.0', version='0.11.0')
    """
    if "vllm" not in text:
        return None
    found = list(_SAID.finditer(text))
    if not found:
        return None
    version = next(group for group in found[-1].groups() if group is not None)
    return Release(found[-1][0], version)


def is_other(version: str) -> bool:
    """Return whether a release is not the one whose rules are simulated, but for its last number.

    Examples
    --------
    >>> is_other("0.33.2"), is_other("0.33"), is_other("0.3.3")
    (False, False, True)
    """
    return version.split(".")[:2] != RELEASE.split(".")[:2]


def other_release(found: Release | None) -> str | None:
    """Say that a server is of another release; None: of that which is simulated, or not told."""
    if found is None or not is_other(found.version):
        return None
    return (
        f"{clip(escaped(found.said))} is vLLM {found.version}: defaults here are those of "
        f"{RELEASE}, and docs/vllm-releases.md has what it does otherwise"
    )
