"""Errors of the training system, named by the boundary they crossed. Each text is one line that says what to do."""

from __future__ import annotations

import errno

from retrieval_server.errors import LegalRLError


class ConfigError(LegalRLError):
    """A configuration file or override cannot be used."""


class StageError(LegalRLError):
    """A stage of a run failed; finished stages stay finished and the run may be started again."""


class ModelError(LegalRLError):
    """A model folder is missing or cannot be loaded."""


_SYSTEM_ERRORS = {
    errno.ENOSPC: "the disk is full; free some space and run the same command again",
    errno.EDQUOT: "the disk quota is used up; free some space and run the same command again",
    errno.EFBIG: "the file grew over the size limit (ulimit -f); raise it and run the same command again",
    errno.EROFS: "the file system is read-only; choose another folder",
    errno.EACCES: "permission denied; choose another folder or check its owner",
    errno.EPERM: "permission denied; choose another folder or check its owner",
    errno.ENOTDIR: "a file stands where a folder is needed; choose another folder",
    errno.EEXIST: "a file stands where a folder is needed; choose another folder",
    errno.EISDIR: "a folder stands where a file is needed",
    errno.EMFILE: "too many open files; raise the limit (ulimit -n)",
    errno.EADDRINUSE: "the port is in use; stop the other server or choose another --port",
}


def explain_system_error(error: OSError, where: object = "") -> str | None:
    """One line for what the machine refused (disk, rights, ports); None for anything else, which is a bug of ours.

    Args:
        where: named when the error itself names no file.
    """
    text = _SYSTEM_ERRORS.get(error.errno or 0)
    name = error.filename or where
    return text and (f"{name}: {text}" if name else text)


__all__ = ["ConfigError", "LegalRLError", "ModelError", "StageError", "explain_system_error"]
