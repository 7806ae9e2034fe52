"""Pictures of the site that also show where a page lies in the repository, and their gallery.

An image of ``results/`` or ``benchmarks/``, written as the path that the repository has, becomes the
vector figure on the site.
``python docs/pictures.py`` writes ``gallery.md`` from the files that are there; a test compares.
"""

import json
import re
import shutil
from pathlib import Path

ROOT = Path(__file__).parent.parent
FIGURE = re.compile(r"!\[([^\]]*)\]\((?:\.\./)+(?:results|benchmarks)/([\w-]+)\.png\)")
PAPERS = {
    "fang": "Fang, Ouyang, Zhou and Cheng 2022",
    "yun": "Yun et al. 2020",
    "jiang": "Jiang and Li 2023",
    "": "Beyond the papers",
}
ANSWERS = {
    "head": ("What does this head compute?", "questions/what-does-this-head-compute.md"),
    "law": ("Which law made these numbers?", "questions/which-law-made-these-numbers.md"),
}


def on_page_markdown(markdown, page, config, files):
    up = "../" * page.file.dest_uri.count("/")
    return FIGURE.sub(rf'<img src="{up}results/\2.svg" alt="\1">', markdown)


def on_post_build(config):
    target = Path(config["site_dir"]) / "results"
    target.mkdir(parents=True, exist_ok=True)
    for folder in ("results", "benchmarks"):
        for figure in (ROOT / folder).glob("*.svg"):
            shutil.copy(figure, target)


def gallery() -> str:
    """Return the page of all figures, as Markdown."""
    return "\n".join(["# Gallery", "", *_answers(), *_results()])


def _answers() -> list[str]:
    lines = ["Figures that the site draws or reads when it is built.", "", "## Two questions", ""]
    for name, (question, page) in ANSWERS.items():
        lines += [f"[{question}]({page})", "", f"![{question}](assets/drawn/{name}.svg)", ""]
    return lines


def _results() -> list[str]:
    left = sorted((ROOT / "results").glob("*.png"))
    lines = []
    for prefix, paper in PAPERS.items():
        lines += [f"## {paper}", ""]
        for figure in [figure for figure in left if figure.stem.startswith(prefix)]:
            left.remove(figure)
            result = json.loads(figure.with_suffix(".json").read_text())
            name = figure.stem
            lines += [
                f"[{name}](reproductions/index.md#{name}): {result['title']}. {result['claim']}"
            ]
            lines += ["", f"![{result['title']}](../results/{name}.png)", ""]
    return lines


if __name__ == "__main__":
    (ROOT / "docs" / "gallery.md").write_text(gallery())
