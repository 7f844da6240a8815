"""What is wrong with a configuration, told so that it can be mended without a manual.

All problems of a file are told at once: at three in the morning nobody wants to learn
of the second mistake by mending the first.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgebox.config.toml import KeyPath, write_value

# A problem before its line is known.
Finding = tuple[KeyPath, str]


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake. `line` is None and `key` empty where the trouble has no such place."""

    file: str
    line: int | None
    key: str
    text: str

    def __str__(self) -> str:
        """FILE:LINE: key.path: problem, on one line whatever the file holds."""
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        line = ": ".join(part for part in (place, self.key, self.text) if part)
        return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in line)


class ConfigError(Exception):
    """A configuration that cannot be used; `problems` has at least one, in order of lines."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


def show(value: object) -> str:
    """`value` as the file has it, cut to what fits a line."""
    text = write_value(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
