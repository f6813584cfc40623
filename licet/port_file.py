"""The file in which a process says where it listens, for whoever started it or asks whether it is ready."""

from pathlib import Path


def tell_port(file: Path | None, port: int) -> None:
    """Write the port, whole or not at all: whoever waits for the file reads it at once. Raises OSError."""
    if file is not None:
        partial = file.with_name(f".{file.name}")
        partial.write_text(f"{port}\n", "ascii")
        partial.replace(file)


def forget_port(file: Path | None) -> None:
    """Remove what the process before said: it names a port that is not ours yet. Raises OSError."""
    if file is not None:
        file.unlink(missing_ok=True)
