"""Media types by file name extension, the same on every host.

The table is built in because /etc/mime.types differs from box to box and a type is part
of the answer. Only the last extension counts: `x.tar.gz` is a gzip file, not a tar file
with a coding, for a client that undid the coding would store it under a wrong name.
Names are octets; the operator's own types come in as a mapping and win.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from edgebox.http.headers import OWS

OCTET_STREAM = b"application/octet-stream"

# Registered names where there are any (IANA media types), else what everyone says.
# .ts is MPEG transport rather than TypeScript, which no browser runs; .svgz without its
# coding is no image, so it is called what it is.
_EXTENSIONS_OF = {
    # documents and what a page is made of
    "text/html": "html htm shtml",
    "text/css": "css",
    "text/javascript": "js mjs cjs",  # RFC 9239
    "text/plain": "txt text log conf cfg ini diff patch asc env toml",
    "text/markdown": "md markdown mkd",
    "text/csv": "csv",
    "text/tab-separated-values": "tsv",
    "text/calendar": "ics ifb",
    "text/vcard": "vcf vcard",
    "text/vtt": "vtt",
    "text/x-c": "c h cc cpp cxx hh hpp",
    "text/x-java": "java",
    "text/x-python": "py",
    "text/x-rust": "rs",
    "text/x-go": "go",
    "text/x-sh": "sh bash",
    "text/x-perl": "pl pm",
    "text/x-ruby": "rb",
    "text/x-lua": "lua",
    "text/x-typescript": "tsx mts cts",
    "text/x-jsx": "jsx",
    "text/x-scss": "scss sass",
    "text/x-less": "less",
    "text/x-component": "htc",
    "text/x-tex": "tex latex bib",
    "text/x-rst": "rst",
    "text/x-nfo": "nfo",
    "text/x-dockerfile": "dockerfile",
    "text/troff": "roff man",
    "application/json": "json map topojson",
    "application/ld+json": "jsonld",
    "application/geo+json": "geojson",
    "application/manifest+json": "webmanifest",
    "application/schema+json": "jsonschema",
    "application/feed+json": "jsonfeed",
    "application/x-ndjson": "jsonl ndjson",
    "application/json5": "json5",
    "application/har+json": "har",
    "application/yaml": "yaml yml",  # RFC 9512
    "application/xml": "xml xsl xsd rng",
    "application/xml-dtd": "dtd",
    "application/xslt+xml": "xslt",
    "application/xhtml+xml": "xhtml xht",
    "application/mathml+xml": "mathml mml",
    "application/rss+xml": "rss",
    "application/atom+xml": "atom",
    "application/opensearchdescription+xml": "osdx",
    "application/rdf+xml": "rdf owl",
    "application/gpx+xml": "gpx",
    "application/vnd.google-earth.kml+xml": "kml",
    "application/vnd.google-earth.kmz": "kmz",
    "application/xspf+xml": "xspf",
    "application/ttml+xml": "ttml dfxp",
    "application/smil+xml": "smil smi",
    "application/wasm": "wasm",
    "application/sql": "sql",
    "application/graphql": "graphql gql",
    "application/pgp-signature": "sig",
    "application/x-x509-ca-cert": "der crt cer pem",
    "application/pkcs12": "p12 pfx",
    "application/pkix-crl": "crl",
    "application/pdf": "pdf",
    "application/postscript": "ps eps ai",
    "application/rtf": "rtf",
    "application/epub+zip": "epub",
    "application/x-mobipocket-ebook": "mobi prc",
    "image/vnd.djvu": "djvu djv",
    "application/msword": "doc dot",
    "application/vnd.ms-excel": "xls xlt",
    "application/vnd.ms-powerpoint": "ppt pps pot",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
    "application/vnd.oasis.opendocument.text": "odt",
    "application/vnd.oasis.opendocument.spreadsheet": "ods",
    "application/vnd.oasis.opendocument.presentation": "odp",
    "application/vnd.oasis.opendocument.graphics": "odg",
    # images and fonts
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/apng": "apng",
    "image/jpeg": "jpg jpeg jpe jfif",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/avif": "avif",
    "image/jxl": "jxl",
    "image/heic": "heic",
    "image/heif": "heif",
    "image/jp2": "jp2",
    "image/bmp": "bmp",
    "image/tiff": "tif tiff",
    "image/vnd.microsoft.icon": "ico cur",
    "image/vnd.adobe.photoshop": "psd",
    "image/x-portable-pixmap": "ppm",
    "image/x-portable-graymap": "pgm",
    "image/x-portable-bitmap": "pbm",
    "image/x-xpixmap": "xpm",
    "image/x-xcf": "xcf",
    "image/ktx2": "ktx2",
    "font/woff": "woff",
    "font/woff2": "woff2",
    "font/ttf": "ttf",
    "font/otf": "otf",
    "font/collection": "ttc",
    "application/vnd.ms-fontobject": "eot",
    # models
    "model/gltf+json": "gltf",
    "model/gltf-binary": "glb",
    "model/obj": "obj",
    "model/mtl": "mtl",
    "model/stl": "stl",
    "model/vnd.usdz+zip": "usdz",
    # sound and moving pictures
    "audio/mpeg": "mp3 mp2 mpga",
    "audio/mp4": "m4a m4b",
    "audio/aac": "aac",
    "audio/ogg": "ogg oga spx",
    "audio/opus": "opus",
    "audio/flac": "flac",
    "audio/wav": "wav",
    "audio/aiff": "aif aiff aifc",
    "audio/webm": "weba",
    "audio/midi": "mid midi kar",
    "audio/basic": "au snd",
    "audio/mpegurl": "m3u",
    "audio/matroska": "mka",
    "audio/x-ms-wma": "wma",
    "video/mp4": "mp4 m4v mp4v",
    "video/webm": "webm",
    "video/ogg": "ogv",
    "video/mpeg": "mpg mpeg mpe",
    "video/mp2t": "ts m2ts mts2",
    "video/iso.segment": "m4s",
    "video/quicktime": "mov qt",
    "video/matroska": "mkv",
    "video/x-msvideo": "avi",
    "video/x-ms-wmv": "wmv",
    "video/x-ms-asf": "asf asx",
    "video/x-flv": "flv",
    "video/3gpp": "3gp 3gpp",
    "video/3gpp2": "3g2",
    "application/vnd.apple.mpegurl": "m3u8",
    "application/dash+xml": "mpd",
    "application/ogg": "ogx",
    "application/x-subrip": "srt",
    # archives, packages, images of disks
    "application/zip": "zip",
    "application/gzip": "gz tgz svgz",
    "application/x-bzip2": "bz2 tbz tbz2",
    "application/x-xz": "xz txz",
    "application/x-lzma": "lzma",
    "application/x-lzip": "lz",
    "application/x-lz4": "lz4",
    "application/x-compress": "z",
    "application/zstd": "zst tzst",
    "application/x-brotli": "br",
    "application/x-7z-compressed": "7z",
    "application/vnd.rar": "rar",
    "application/x-tar": "tar",
    "application/x-cpio": "cpio",
    "application/x-archive": "a ar",
    "application/vnd.ms-cab-compressed": "cab",
    "application/vnd.debian.binary-package": "deb udeb",
    "application/x-rpm": "rpm",
    "application/vnd.flatpak": "flatpak",
    "application/vnd.snap": "snap",
    "application/vnd.appimage": "appimage",
    "application/vnd.android.package-archive": "apk",
    "application/java-archive": "jar war ear",
    "application/java-vm": "class",
    "application/x-apple-diskimage": "dmg",
    "application/x-iso9660-image": "iso",
    "application/x-xpinstall": "xpi",
    "application/x-chrome-extension": "crx",
    "application/x-msi": "msi",
    "application/vnd.microsoft.portable-executable": "exe dll",
    "application/x-bittorrent": "torrent",
    "application/metalink4+xml": "meta4",
    "application/vnd.sqlite3": "sqlite sqlite3 db",
    "application/vnd.apache.parquet": "parquet",
    "application/vnd.apache.arrow.file": "arrow",
    "application/vnd.tcpdump.pcap": "pcap cap",
    "application/x-hdf5": "h5 hdf5",
    "application/protobuf": "pb",
    "application/cbor": "cbor",
    "application/x-shockwave-flash": "swf",
    "application/vnd.ms-htmlhelp": "chm",
    "application/octet-stream": "bin img dat raw so o pyc dump",
}


def _as_sent(media_type: str) -> bytes:
    # JSON has no charset (RFC 8259 §11). XML names its own, and the parameter would
    # overrule what the document says of itself (RFC 7303 §3.2).
    charset = "; charset=utf-8" if media_type.startswith("text/") else ""
    return (media_type + charset).encode()


TYPES: Mapping[str, bytes] = MappingProxyType(
    {
        extension: _as_sent(media_type)
        for media_type, extensions in _EXTENSIONS_OF.items()
        for extension in extensions.split()
    }
)


def content_type(name: bytes, overrides: Mapping[str, str]) -> bytes:
    """Content-Type of a file called `name`; a path's last segment counts.

    `overrides` maps ".ext", lower case, to a type that is sent as written, before the
    built-in table. No extension, or an unknown one: application/octet-stream. The dot of
    a dotfile starts no extension.
    """
    stem, dot, extension = name.rpartition(b"/")[2].rpartition(b".")
    if not dot or not stem.strip(b"."):
        return OCTET_STREAM
    key = extension.lower().decode("utf-8", "surrogateescape")
    override = overrides.get("." + key)
    return override.encode() if override is not None else TYPES.get(key, OCTET_STREAM)


def matches(content_type: bytes, patterns: Sequence[str]) -> bool:
    """Whether a Content-Type is one of `patterns`: "type/subtype", "type/*" or "*/*".

    Parameters and case make no difference (RFC 9110 §8.3.1).
    """
    media_type = content_type.partition(b";")[0].strip(OWS).lower().decode("latin-1")
    whole_kind = media_type.partition("/")[0] + "/*"
    return any(p.lower() in (media_type, whole_kind, "*/*") for p in patterns)
