"""The fonts of figures: one everywhere, and for letters that it lacks what is installed."""

from __future__ import annotations

from matplotlib.font_manager import fontManager

FONT = "DejaVu Sans"
"""Comes with Matplotlib, so that figures are the same everywhere."""

WIDER = (
    *("Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans CJK TC", "Noto Sans CJK KR"),
    *("Noto Sans JP", "Noto Sans SC", "Noto Sans KR", "Source Han Sans", "IPAexGothic"),
    *("Hiragino Sans", "PingFang SC", "Apple SD Gothic Neo", "Arial Unicode MS"),
    *("Yu Gothic", "Microsoft YaHei", "Malgun Gothic", "WenQuanYi Zen Hei"),
    *("WenQuanYi Micro Hei", "Droid Sans Fallback", "NanumGothic", "Noto Sans Devanagari"),
)
"""Fonts with letters of more scripts, those of Chinese, Japanese and Korean first."""

LACKING = "boxes stand for what it lacks, until a font such as Noto Sans CJK is installed"


def families() -> list[str]:
    """Return the fonts that a letter is looked for in, one after the other."""
    installed = {entry.name for entry in fontManager.ttflist}
    return [FONT, *(name for name in WIDER if name in installed)]
