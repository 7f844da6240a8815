"""Which representation of a file a client gets: plain, a sidecar, or a cached variant.

Variants are files like any other, looked up in the same store: a sidecar beside its
source under the same symlink policy, a cached one in the compression directory under
a name made from the source's exact identity. A variant that is not there yet is asked
for from the helper, and this client gets the plain file.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from edgebox.config.schema import Compression
from edgebox.files.compression.client import CompressionClient
from edgebox.files.compression.jobs import Job
from edgebox.files.compression.variants import (
    SIDECAR_SUFFIXES,
    Worth,
    variant_name,
    worth_compressing,
)
from edgebox.files.entry import FileEntry, Found
from edgebox.files.store import Docroot
from edgebox.http.mime import matches
from edgebox.http.negotiate import choose


class Source(Struct, frozen=True):
    """A file that was found, and as what: `kind` is its media type."""

    docroot: Docroot
    path: bytes
    entry: FileEntry
    kind: bytes


class Selected(Struct, frozen=True):
    """The chosen representation.

    `entry` has its octets, `dated` its Last-Modified (a variant's is its source's).
    `varies`: another Accept-Encoding could have got another representation.
    """

    entry: FileEntry
    dated: FileEntry
    etag: bytes
    coding: bytes
    varies: bool


Look = Callable[[Docroot, bytes], Found]


class Variants:
    """Selects among the codings of one configuration; without `client` none are made."""

    def __init__(
        self, config: Compression, cache: Docroot | None, client: CompressionClient | None
    ) -> None:
        self._config = config
        self._codings = [c.encode() for c in config.codings]
        self._cache = cache
        self._client = client

    def select(self, source: Source, accept: bytes | None, look: Look) -> Selected | None:
        """The best representation of `source`; None where the client refuses them all."""
        plain = Selected(source.entry, source.entry, source.entry.etag, b"", False)
        if not matches(source.kind, self._config.types):
            return plain if choose(accept, ()) is not None else None
        made_here = self._makes_variants_of(source)
        offered: dict[bytes, Selected] = {}
        for coding in self._codings:
            found = self._sidecar(source, coding, look)
            if found is None and made_here:
                found = self._cached(source, coding, accept, look)
            if found is not None:
                offered[coding] = found
        best = choose(accept, tuple(offered))
        if best is None:
            return None
        return offered.get(best) or replace(plain, varies=made_here or bool(offered))

    def _makes_variants_of(self, source: Source) -> bool:
        worth = worth_compressing(source.entry.size, source.kind, self._config)
        return self._cache is not None and worth is Worth.OK

    def _sidecar(self, source: Source, coding: bytes, look: Look) -> Selected | None:
        """A file beside the source that somebody compressed; never one older than it.

        Nor one of no octets, which a coder that was stopped leaves: no coding has that.
        """
        if not self._config.sidecars:
            return None
        found = look(source.docroot, source.path + SIDECAR_SUFFIXES[coding])
        if not isinstance(found, FileEntry) or not found.size:
            return None
        if found.mtime < source.entry.mtime:
            return None
        return Selected(found, found, found.etag, coding, True)

    def _cached(
        self, source: Source, coding: bytes, accept: bytes | None, look: Look
    ) -> Selected | None:
        """The variant that the helper made; if there is none yet, one is asked for."""
        assert self._cache is not None
        entry = source.entry
        found = look(self._cache, variant_name(entry.identity, coding))
        if not isinstance(found, FileEntry):
            if self._client is not None and choose(accept, (coding,)) == coding:
                self._client.request(
                    Job(
                        root=source.docroot.root,
                        path=source.path,
                        symlinks=source.docroot.symlinks,
                        identity=entry.identity,
                        coding=coding,
                    )
                )
            return None
        if found.size == 0:
            return None  # the helper's mark for: coded, it was no smaller
        # Made of the source's validator, so that a variant made again is still the same; with
        # its length, so that what another level or library made of the source is another.
        etag = b'%s-%s-%x"' % (entry.etag[:-1], coding, found.size)
        return Selected(found, entry, etag, coding, True)
