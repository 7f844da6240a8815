"""The plan put to use: sizes at the start, and kept true while it runs."""
