"""`python -m edgebox`, the same as the `edgebox` command."""

from __future__ import annotations

from edgebox.cli.main import main

if __name__ == "__main__":
    main(prog_name="edgebox")
