"""What the tables of the schema are made of: the base of a table, and how numbers are marked."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

# Marks for the loader and the JSON Schema: how a number is written in the file.
Size = Annotated[int, Meta(extra={"unit": "size"}, ge=0)]
Seconds = Annotated[float, Meta(extra={"unit": "time"}, ge=0)]
# For what is given up when it is over: 0 would give up before it has begun.
Timeout = Annotated[float, Meta(extra={"unit": "time"}, ge=0.001)]
Rate = Annotated[int, Meta(extra={"unit": "rate"}, ge=0)]
Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]


def about(text: str) -> Meta:
    """The description of a key."""
    return Meta(description=text)


class Record(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the file: unknown keys are refused."""
