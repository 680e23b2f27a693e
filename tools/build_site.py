"""Build the documentation site: `python tools/build_site.py [FOLDER]`, by default into build/site.

Its pages are those of docs/, which a git host shows too, the notebooks, and a reference made from
the code. They are put together in a folder of their own, so that no generated page lies among those
that are written. Warnings are errors. Notebooks are shown with the outputs that they have; those of
the repository have none, `--execute` runs them first (minutes).
"""

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import site_reference

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build"
"""Where pages are put together, and what Sphinx keeps: not beside a folder of somebody else."""
SITE = Path("docs/site")
PAGES = (
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "BENCHMARKS.md"),
    *("tools/record_vllm/README.md", "tests/goldens/README.md"),
)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def put_together(source: Path) -> None:
    """Copy what is written into the folder `source`, make what is generated."""
    shutil.copy(ROOT / SITE / "conf.py", source)
    shutil.copytree(ROOT / SITE / "_static", source / "_static")
    for page in (ROOT / SITE).glob("*.md"):  # the pages that lead to the others
        text = page.read_text().replace("../../", "").replace("../", "docs/")
        (source / page.name).write_text(text)
    written = (*_below("docs", "*.md"), *_below("notebooks", "*.ipynb"))
    pages = [*(Path(page) for page in PAGES), *written]
    for page in pages:
        if not page.is_relative_to(SITE):
            _copy_page(page, source, set(pages))
    shutil.copy(ROOT / "docs" / "h8-cliff.png", source / "docs")
    site_reference.write(source / "reference")


def _below(folder: str, pattern: str) -> Iterator[Path]:
    for path in sorted((ROOT / folder).rglob(pattern)):
        if "checkpoint" not in path.name:
            yield path.relative_to(ROOT)


def _copy_page(page: Path, source: Path, pages: set[Path]) -> None:
    """Copy a page and the files that it names; what is not there is an error of the build."""
    text = (ROOT / page).read_text()
    target = source / page
    target.parent.mkdir(parents=True, exist_ok=True)

    def settle(link: re.Match[str]) -> str:
        if "://" in link[3]:
            return link[0]
        file = (ROOT / page.parent / link[3]).resolve()
        place = file.relative_to(ROOT)
        if file.is_dir():
            return link[2]  # a git host lists a folder, a site has none
        if file.is_file() and place not in pages:
            (source / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, source / place)
        return link[0]

    target.write_text(LINK.sub(settle, text))


def execute(source: Path) -> None:
    """Run the notebooks, whose outputs then are part of them."""
    (source / "notebooks" / "study.py").write_bytes((ROOT / "notebooks" / "study.py").read_bytes())
    shutil.copytree(ROOT / "sweeps", source / "sweeps", dirs_exist_ok=True)
    options = ["-q", "-p", "no:cacheprovider", "--nbmake", "--overwrite", "--nbmake-timeout=900"]
    subprocess.run([sys.executable, "-m", "pytest", *options, "notebooks"], cwd=source, check=True)


def main() -> None:
    """Build the site that the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "site")
    parser.add_argument("--execute", action="store_true", help="run the notebooks first")
    given = parser.parse_args()
    out = given.folder.resolve()
    source = WORK / "site-source"
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    put_together(source)
    if given.execute:
        execute(source)
    options = ["-W", "--keep-going", "-q", "-d", str(WORK / "site-doctrees")]
    build = [sys.executable, "-m", "sphinx", *options, str(source), str(out)]
    if code := subprocess.run(build, check=False).returncode:
        sys.exit(code)
    sys.stdout.write(f"{out / 'index.html'}\n")


if __name__ == "__main__":
    main()
