from __future__ import annotations

from collections.abc import Hashable

import pytest

from edgebox.config.schema import Compression, Config, Site
from edgebox.files.entry import Docroot
from edgebox.ops.worker.sorts import UNNAMED, Sorter

CONFIG = Config(
    site=(Site(hosts=("www.example.com", "example.com"), root="/srv/www"), Site(root="/srv/all")),
    compression=Compression(dir="/var/variants"),
)


@pytest.mark.parametrize(
    ("key", "sort"),
    [
        ((Docroot(b"/srv/www"), b"/img/a.PNG"), ("www.example.com", "images")),
        ((Docroot(b"/srv/all"), b"/a.css"), ("any host", "styles")),
        ((Docroot(b"/srv/all"), b"/a.tar.gz"), ("any host", "compressed")),
        ((Docroot(b"/srv/all"), b"/dir.d/README"), ("any host", "other")),
        ((Docroot(b"/srv/all"), b"/.htaccess"), ("any host", "other")),
        ((Docroot(b"/var/variants"), b"/ab/cd.br"), (UNNAMED, "compressed")),
        ((Docroot(b"/gone"), b"/a.js"), (UNNAMED, "scripts")),
        (("answer", b"http://shop.example.com/basket", 7), ("shop.example.com", "pages")),
        (("answer", b"http://shop:8080/a.woff2?v=1.html", 7), ("shop:8080", "fonts")),
        (("answer", b"http://shop/api.v2/prices.json", 7), ("shop", "data")),
        ("something else", (UNNAMED, "other")),
    ],
)
def test_what_lies_in_ram_has_a_site_and_a_type(key: Hashable, sort: tuple[str, str]) -> None:
    assert Sorter(CONFIG)(key) == sort
