"""What edgebox does when something breaks: real processes, real faults, every answer checked."""
