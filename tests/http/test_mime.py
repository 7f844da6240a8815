"""Media types: from the built-in table, whatever the host has, by the last extension."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgebox.config.schema import Compression
from edgebox.http.mime import OCTET_STREAM, TYPES, content_type, matches


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (b"index.html", b"text/html; charset=utf-8"),
        (b"/a.b/c/index.HTML", b"text/html; charset=utf-8"),
        (b"a.css", b"text/css; charset=utf-8"),
        (b"a.js", b"text/javascript; charset=utf-8"),
        (b"a.mjs", b"text/javascript; charset=utf-8"),
        (b"a.txt", b"text/plain; charset=utf-8"),
        (b"a.md", b"text/markdown; charset=utf-8"),
        (b"a.csv", b"text/csv; charset=utf-8"),
        (b"a.ics", b"text/calendar; charset=utf-8"),
        (b"a.json", b"application/json"),
        (b"a.min.js.map", b"application/json"),
        (b"a.webmanifest", b"application/manifest+json"),
        (b"a.xml", b"application/xml"),
        (b"a.rss", b"application/rss+xml"),
        (b"a.atom", b"application/atom+xml"),
        (b"a.svg", b"image/svg+xml"),
        (b"a.wasm", b"application/wasm"),
        (b"a.avif", b"image/avif"),
        (b"a.webp", b"image/webp"),
        (b"a.jxl", b"image/jxl"),
        (b"a.woff2", b"font/woff2"),
        (b"a.mp4", b"video/mp4"),
        (b"a.webm", b"video/webm"),
        (b"a.m3u8", b"application/vnd.apple.mpegurl"),
        (b"a.mpd", b"application/dash+xml"),
        (b"a.ts", b"video/mp2t"),
        (b"a.pdf", b"application/pdf"),
        (b"a.zip", b"application/zip"),
        (b"a.7z", b"application/x-7z-compressed"),
        (b"a.deb", b"application/vnd.debian.binary-package"),
        (b"a.iso", b"application/x-iso9660-image"),
        # a compressed file is a file of that kind, not a coding of another
        (b"a.tar.gz", b"application/gzip"),
        (b"a.tgz", b"application/gzip"),
        (b"index.html.gz", b"application/gzip"),
        (b"a.tar.zst", b"application/zstd"),
        (b"a.tar.xz", b"application/x-xz"),
        (b"a.css.br", b"application/x-brotli"),
        # no extension
        (b"README", OCTET_STREAM),
        (b"", OCTET_STREAM),
        (b".html", OCTET_STREAM),
        (b"/x.html/.html", OCTET_STREAM),
        (b"..html", OCTET_STREAM),
        (b"/x.html/html", OCTET_STREAM),
        (b"html.", OCTET_STREAM),
        (b"a.nosuch", OCTET_STREAM),
        (b"a.h\xe9", OCTET_STREAM),
        (b"a.html ", OCTET_STREAM),
        (b".config.json", b"application/json"),
        (b"\xff\xfe.html", b"text/html; charset=utf-8"),
    ],
)
def test_a_type_by_the_last_extension(name: bytes, kind: bytes) -> None:
    assert content_type(name, {}) == kind


def test_the_operator_s_types_come_first_and_are_sent_as_written() -> None:
    types = {".html": "text/html;charset=iso-8859-1", ".foo": "text/x-foo", ".é": "text/x-e"}
    assert content_type(b"a.HTML", types) == b"text/html;charset=iso-8859-1"
    assert content_type(b"a.foo", types) == b"text/x-foo"
    assert content_type("a.é".encode(), types) == b"text/x-e"
    assert content_type(b"foo", types) == OCTET_STREAM
    assert content_type(b".foo", types) == OCTET_STREAM
    assert content_type(b"a.css", types) == b"text/css; charset=utf-8"


def test_the_table_is_large_and_well_formed() -> None:
    assert len(TYPES) >= 150
    for extension, kind in TYPES.items():
        assert re.fullmatch(r"[a-z0-9]+", extension)
        assert re.fullmatch(rb"[a-z]+/[a-z0-9.+-]+(; charset=utf-8)?", kind)
        assert kind.startswith(b"text/") == kind.endswith(b"; charset=utf-8")


@settings(max_examples=50)
@given(
    st.binary(max_size=9) | st.binary(max_size=5).map(b"a.".__add__), st.sampled_from([".a", "."])
)
def test_no_name_makes_it_raise(name: bytes, extension: str) -> None:
    assert b"/" in content_type(name, {extension: "a/b"})


@pytest.mark.parametrize(
    ("kind", "patterns", "answer"),
    [
        (b"text/html; charset=utf-8", ("text/*",), True),
        (b"text/html; charset=utf-8", ("text/html",), True),
        (b"Text/HTML ;charset=utf-8", ("image/png", "TEXT/html"), True),
        (b"application/json", ("application/*",), True),
        (b"image/png", ("*/*",), True),
        (b"image/png", (), False),
        (b"image/png", ("text/*", "image/svg+xml"), False),
        (b"image/svg+xml", ("image/svg",), False),
        (b"textual/html", ("text/*",), False),
        (b"application/json; x=text/html", ("text/html", "text/*"), False),
        (b"", ("text/*",), False),
        (b"\xff", ("text/*",), False),
    ],
)
def test_patterns_look_at_the_type_alone(
    kind: bytes, patterns: tuple[str, ...], answer: bool
) -> None:
    assert matches(kind, patterns) is answer


def test_what_is_compressed_by_default_is_text_and_not_what_is_compressed_already() -> None:
    types = Compression().types
    for extension in (
        "html",
        "css",
        "js",
        "json",
        "svg",
        "xml",
        "wasm",
        "rss",
        "ttf",
        "eot",
        "txt",
    ):
        assert matches(TYPES[extension], types), extension
    for extension in ("gz", "br", "zst", "zip", "png", "jpg", "mp4", "woff2", "svgz", "pdf", "deb"):
        assert not matches(TYPES[extension], types), extension
