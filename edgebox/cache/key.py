"""The primary key: which URL a request is about (RFC 9111 §2).

The path stays as it was sent. Decoding it first would let `/me%2fa.css` and `/me/a.css`
share an entry that the upstream tells apart. The authority keeps its port for the same
reason: an upstream that builds redirects from Host would poison the entry of another port.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from urllib.parse import urljoin, urlsplit

from edgebox.cache.rules import KeyRules
from edgebox.http.message import Request

_DEFAULT_PORTS = {b"http": b":80", b"https": b":443"}


def primary_key(request: Request, rules: KeyRules) -> bytes:
    """scheme://authority/path?query with the operator's edits; readable, for logs and purges."""
    target = request.target
    return _key(_authority(request, rules), target.raw_path, target.query, rules)


def related_key(request: Request, reference: bytes, rules: KeyRules) -> bytes | None:
    """The key of a URL that a response names, resolved against the request's.

    None if it is of another origin, which a response must not speak for (RFC 9111 §4.4),
    or if it is no URL.
    """
    own = _authority(request, rules)
    base = b"%s://%s%s" % (rules.scheme, own, request.target.path_and_query)
    try:
        url = urlsplit(urljoin(base.decode("latin-1"), reference.decode("latin-1")))
    except ValueError:  # brackets that enclose no address
        return None
    authority = _without_default_port(url.netloc.lower().encode("latin-1"), rules)
    if (url.scheme.encode("latin-1"), authority) != (rules.scheme, own):
        return None
    query = url.query.encode("latin-1") or None
    return _key(own, url.path.encode("latin-1") or b"/", query, rules)


def _authority(request: Request, rules: KeyRules) -> bytes:
    given = request.target.authority or request.headers.get(b"host") or request.host
    return _without_default_port(given.lower(), rules)


def _without_default_port(authority: bytes, rules: KeyRules) -> bytes:
    port = _DEFAULT_PORTS.get(rules.scheme)
    return authority if port is None else authority.removesuffix(port)


def _key(authority: bytes, path: bytes, query: bytes | None, rules: KeyRules) -> bytes:
    edited = None if query is None else _edit_query(query, rules)
    key = b"%s://%s%s" % (rules.scheme, authority, path)
    return key if edited is None else key + b"?" + edited


def _edit_query(query: bytes, rules: KeyRules) -> bytes | None:
    """The query without what is dropped, sorted if so wished; None if all of it is dropped."""
    if not rules.drop_query and not rules.sort_query:
        return query
    parameters = query.split(b"&")
    kept = [
        p for p in parameters
        if not any(fnmatchcase(p.partition(b"=")[0], pattern) for pattern in rules.drop_query)
    ]  # fmt: skip
    if parameters and not kept:
        return None
    if rules.sort_query:
        # By name only: of repeated parameters the order may well matter.
        kept.sort(key=lambda parameter: parameter.partition(b"=")[0])
    return b"&".join(kept)
