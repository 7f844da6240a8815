"""Reason phrases, which nobody goes by and everybody reads: those of RFC 9110 §15.

Python's table has older ones in older versions; what a server says should not depend on that.
"""

from __future__ import annotations

from http import HTTPStatus

PHRASES: dict[int, str] = {status.value: status.phrase for status in HTTPStatus} | {
    413: "Content Too Large",
    414: "URI Too Long",
    416: "Range Not Satisfiable",
    418: "Unused",
    422: "Unprocessable Content",
}
