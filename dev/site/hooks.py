"""What turns the pages of the repository into a site: GitHub shows them as they are.

- The front page is README.md, and its table "Read on" is the navigation, followed by the decisions.
- Links to files outside docs lead to the repository. A link to a file that is not there is a warning, which fails.
- Words after the language of a code block are for test/docs.
"""
import logging
import os
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = "https://github.com/belfry-dev/belfry/blob/main/"
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FENCE = re.compile(r"^( *```\w+) .*$", re.MULTILINE)
log = logging.getLogger("mkdocs.hooks.site")


def on_config(config):
    config.nav = [{"Belfry": "index.md"}]
    section = config.nav
    table = (ROOT / "README.md").read_text().split("\n## Read on\n")[1]
    for row in re.findall(r"^\|(.*?)\|", table, re.MULTILINE):
        if heading := re.match(r" \*\*(.*)\*\* ", row):
            section = []
            config.nav.append({heading[1]: section})
        for title, page in re.findall(r"\[(.*?)\]\(docs/(.*?\.md)\)", row):
            if page != "decisions/README.md":
                section.append({title: page})
    decisions = sorted(p.name for p in (ROOT / "docs/decisions").glob("0*.md"))
    config.nav.append({"Decisions": ["decisions/README.md"] + [f"decisions/{name}" for name in decisions]})
    return config


def on_files(files, config):
    files.append(File.generated(config, "index.md", content=(ROOT / "README.md").read_text()))
    return files


def on_page_markdown(markdown, page, config, files):
    front = page.file.src_uri == "index.md"
    folder = ROOT if front else (ROOT / "docs" / page.file.src_uri).parent

    def link(match):
        target, anchor = (match[2].split("#", 1) + [""])[:2]
        if not target or re.match(r"[a-z]+:", target):
            return match[0]
        path = os.path.relpath(os.path.normpath(folder / target), ROOT)
        if not (ROOT / path).exists():
            log.warning("%s: there is no %s", page.file.src_uri, match[2])
        if path.startswith("docs/"):
            if not front:
                return match[0]
            return match[1] + path.removeprefix("docs/") + ("#" + anchor if anchor else "") + match[3]
        if path == "README.md":
            return match[1] + os.path.relpath("index.md", os.path.dirname(page.file.src_uri) or ".") + match[3]
        return match[1] + REPOSITORY + path + ("#" + anchor if anchor else "") + match[3]

    return FENCE.sub(r"\1", LINK.sub(link, markdown))
