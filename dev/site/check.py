"""check.py DIRECTORY: fails if a page of a site has a link to a file or an anchor that is not there, or loads something
from another host.
"""
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src", "object": "data"}


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loaded, self.classes = set(), [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        a = dict(attributes)
        self.classes.update((a.get("class") or "").split())
        self.ids.update(a[k] for k in ("id", "name") if a.get(k))
        if tag in LOADED and a.get(LOADED[tag]):
            self.loaded.append(a[LOADED[tag]])
        elif tag == "link" and a.get("href") and a.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.append(a["href"])
        elif tag == "a" and a.get("href"):
            self.links.append(a["href"])


def main(directory):
    root = Path(directory).resolve()
    pages = {p: Page(p.read_text()) for p in root.rglob("*.html")}
    problems, checked = [], 0
    if not pages:
        problems.append(f"{directory} has no pages")
    for path, page in sorted(pages.items()):
        name = path.relative_to(root).as_posix()
        if "mermaid" in page.classes:
            problems.append(f"{name}: a diagram that another host would draw")
        for url in page.loaded + page.links:
            loaded = url in page.loaded
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                if loaded and parts.scheme != "data":
                    problems.append(f"{name}: loads {url}")
                continue
            if name == "404.html":  # its links are for any place of the site
                continue
            checked += 1
            target = root / unquote(urlsplit(urljoin("/" + name, url)).path).lstrip("/")
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                problems.append(f"{name}: {url} leads nowhere")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
                problems.append(f"{name}: {url} has no such anchor")
    for sheet in root.rglob("*.css"):
        text = sheet.read_text()
        if "url(http" in text or "url(//" in text or "@import" in text:
            problems.append(f"{sheet.relative_to(root)}: loads from another host")
    print("\n".join(problems) or f"{len(pages)} pages, {checked} links")
    return 1 if problems else 0


sys.exit(main(sys.argv[1]))
