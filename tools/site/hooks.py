"""What mkdocs does beyond its settings: links that leave docs, and drawings without another host."""

import os
import posixpath
import re

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGES = os.path.join(TOP, ".tools", "site-scripts")
MERMAID = "assets/mermaid.js"  # draws diagrams
WORKER = "assets/iframe-worker.js"  # lets pages search that no server shows
SCRIPTS = {MERMAID: "tiny/dist/mermaid.tiny.js", WORKER: "iframe-worker/shim/index.js"}

LINK = re.compile(r"(\]\()([^)\s:#]+)(#[^)\s]*)?\)")
INFO = re.compile(r"(```\w+) .*")  # what a test reads behind the language
ITEM = re.compile(r"([-*]|\d+\.) ")


def on_files(files, config):
    """Adds scripts that the theme would load from another host."""
    for name, source in SCRIPTS.items():
        path = os.path.join(PACKAGES, source)
        if not os.path.exists(path):
            raise PluginError(f"{path} is missing: run `make docs`, which installs it")
        with open(path, "rb") as script:
            files.append(File.generated(config, name, content=script.read()))
    return files


def on_page_markdown(markdown, page, config, files):
    """Changes what only GitHub understands: links that leave docs, and lists as they are indented here."""
    lines = [line if code else LINK.sub(lambda link: outward(link, page, config, files), line)
             for line, code in marked(markdown.split("\n"))]
    return "\n".join(indented(lines))


def marked(lines):
    """Yields each line, and whether it is in a code block."""
    fence = False
    for line in lines:
        edge = line.lstrip().startswith("```")
        yield INFO.sub(r"\1", line) if edge else line, fence or edge
        fence ^= edge


def indented(lines):
    """Indents what belongs to an item of a list by four spaces, which Python's Markdown needs."""
    done, body, width = [], [], 0

    def end():
        if body:
            done.extend("    " + line if line else "" for line in indented(body))
            if "" in body and body[-1]:
                done.append("")
            body.clear()

    for line, code in marked(lines):
        item = not code and ITEM.match(line)
        if item:
            end()
            width = len(item[0])
            done.append(line)
        elif width and (not line or line.startswith(" " * width)):
            body.append(line[width:])
        else:
            end()
            width = 0
            done.append(line)
    end()
    return done


def outward(link, page, config, files):
    """Returns a link to the repository for what is not a file of the site."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), link[2]))
    here = os.path.join(TOP, "docs", path)
    if files.get_file_from_path(path) or not os.path.exists(here):
        return link[0]
    kind = "tree" if os.path.isdir(here) else "blob"
    return f"{link[1]}{config.extra['repository']}/{kind}/main/{posixpath.normpath('docs/' + path)}{link[3] or ''})"


def on_post_page(output, page, config):
    """Names the dialog of the search, and loads the script where there is a diagram, before the theme's own."""
    dialog = 'data-md-component="search" role="dialog"'
    if dialog not in output:
        raise PluginError("the theme has another dialog for search: see on_post_page in tools/site/hooks.py")
    output = output.replace(dialog, dialog + ' aria-label="Search"', 1)
    if '<pre class="mermaid">' in output:
        up = posixpath.relpath(MERMAID, posixpath.dirname(page.file.dest_uri) or ".")
        output = output.replace("</head>", f'<script src="{up}"></script></head>', 1)
    return output
