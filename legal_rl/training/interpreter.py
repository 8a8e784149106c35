"""The Python interpreter for Ray's processes, by a path without blanks.

Ray starts workers that have an environment of their own through `bash -c "exec <python> …"` without quotes, so an
environment below a folder with a blank in its name starts none. A symbolic link to the environment has a path of our
choice, and Python finds its packages through the link as well.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from pathlib import Path


def interpreter(prefix: str = sys.prefix, executable: str = sys.executable) -> str:
    """Path of the running interpreter; through a link in the temporary folder when the path holds a blank.

    Example: `/home/me/my work/.venv/bin/python` -> `/tmp/legal-rl-1000/3f2a…/bin/python`.
    """
    if not any(character.isspace() for character in executable):
        return executable
    folder = Path(tempfile.gettempdir()) / f"legal-rl-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    link = folder / hashlib.sha256(prefix.encode()).hexdigest()[:12]
    if not link.is_symlink() or os.readlink(link) != prefix:
        temporary = folder / f"{link.name}.{os.getpid()}"
        temporary.symlink_to(prefix, target_is_directory=True)
        os.replace(temporary, link)
    return str(link / Path(executable).relative_to(prefix))
