"""What lies in RAM, by site and type, as the status page shows it.

A key of the working set is a file's, (document root, path), or a stored answer's, with its
URL. Types go by the extension, in a few words that an operator thinks in.
"""

from __future__ import annotations

import os
from collections.abc import Hashable
from functools import lru_cache

from edgebox.config.schema import Config
from edgebox.http.mime import TYPES

Sort = tuple[str, str]  # site and type

_WORDS = {
    "text/html": "pages",
    "text/css": "styles",
    "text/javascript": "scripts",
    "application/wasm": "scripts",
    "application/json": "data",
    "application/xml": "data",
}
_KINDS = {
    "image": "images", "font": "fonts", "video": "films", "audio": "sound", "text": "text",
}  # fmt: skip
_CODINGS = ("br", "zst", "gz")
UNNAMED = "(others)"


class Sorter:
    """Sorts keys; `site` is the first of its hosts, or that of an answer's URL."""

    def __init__(self, config: Config) -> None:
        self._sites = {
            os.fsencode(site.root): "any host" if site.hosts[0] == "*" else site.hosts[0]
            for site in config.site
            if site.root
        }
        if config.compression.dir:
            self._sites[os.fsencode(config.compression.dir)] = UNNAMED

    def __call__(self, key: Hashable) -> Sort:
        match key:
            case (str(), bytes() as url, *_):
                # scheme://authority/path?query
                authority, _, rest = url.partition(b"://")[2].partition(b"/")
                path = rest.partition(b"?")[0]
                return authority.decode("latin-1"), _type_of(_extension(path), "pages")
            case ((bytes() as root, *_), bytes() as path):
                return self._sites.get(root, UNNAMED), _type_of(_extension(path), "other")
        return UNNAMED, "other"


def _extension(path: bytes) -> str:
    name, dot, extension = path.rpartition(b"/")[2].rpartition(b".")
    return extension.lower().decode("latin-1") if dot and name and len(extension) < 12 else ""


@lru_cache(1024)
def _type_of(extension: str, unknown: str) -> str:
    if extension in _CODINGS:
        return "compressed"
    kind = TYPES.get(extension, b"").partition(b";")[0].decode()
    if not kind:
        return unknown
    return _WORDS.get(kind) or _KINDS.get(kind.partition("/")[0], "other")
