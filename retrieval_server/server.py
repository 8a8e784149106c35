"""`legal-rl serve retrieval`: the service in a process of its own, under uvicorn.

    run_server("runs/index", port=8000)      # returns after SIGTERM or SIGINT, accepted requests answered

Once the socket is bound it prints `Legal Assistant listening on http://… (pid …)`; `/readyz` tells when it is warm.
"""

from __future__ import annotations

import errno
import os
import socket
import types
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict

from retrieval_server.app import create_app
from retrieval_server.assistant import LegalAssistant
from retrieval_server.config import AssistantConfig, ServiceConfig
from retrieval_server.errors import LegalRLError
from retrieval_server.logs import configure_logs

_SETTINGS_VARIABLE = "LEGAL_RL_SERVER_SETTINGS"


class ServerSettings(BaseModel):
    """What a worker process needs to build its app; travels as JSON in an environment variable."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    index_dir: str
    assistant: AssistantConfig = AssistantConfig()
    service: ServiceConfig = ServiceConfig()
    dense_gpus: int = 0
    """GPUs that the vectors are searched on, rows shared out; 0 = in memory."""


class PortError(LegalRLError):
    """The address cannot be listened on."""


def build_app(settings: ServerSettings) -> FastAPI:
    """Open the index and make the app.

    Raises:
        IndexStateError: the index is missing, damaged or stale.
    """
    from retrieval_server.index import open_index

    assistant = LegalAssistant(open_index(settings.index_dir, dense_gpus=settings.dense_gpus), settings.assistant)
    return create_app(assistant, settings.service)


def app_from_environment() -> FastAPI:
    """Factory for worker processes, see `run_server`."""
    return build_app(ServerSettings.model_validate_json(os.environ[_SETTINGS_VARIABLE]))


def run_server(
    index_dir: str | Path,
    host: str = "127.0.0.1",
    port: int = 8000,
    config: AssistantConfig | None = None,
    workers: int = 1,
    service: ServiceConfig | None = None,
    ready_file: str | Path | None = None,
    log_level: str = "warning",
    dense_gpus: int = 0,
) -> None:
    """Serve until SIGTERM or SIGINT; then stop accepting, answer what was accepted, return.

    Args:
        port: 0 takes a free one; the printed line and `ready_file` tell which.
        workers: processes, each with the index opened by itself and with its own cache, queue and metrics.
        ready_file: gets the line `PID URL` once the socket is bound; removed at the end.

    Raises:
        PortError: the address is in use or not allowed.
        IndexStateError: the index cannot be opened (checked before anything is printed).
    """
    settings = ServerSettings(
        index_dir=str(index_dir), assistant=config or AssistantConfig(), service=service or ServiceConfig(),
        dense_gpus=dense_gpus,
    )  # fmt: skip
    configure_logs(log_level)
    listener = bind(host, port)
    with listener:
        url = f"http://{host}:{listener.getsockname()[1]}"
        if workers > 1:
            _serve_with_workers(settings, listener, url, workers, ready_file, log_level)
        else:
            app = build_app(settings)
            _announce(url, ready_file)
            _Server(_uvicorn_config(app, settings, log_level)).run(sockets=[listener])
    if ready_file:
        Path(ready_file).unlink(missing_ok=True)


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens on the address.

    Raises:
        PortError: one line that says why not and what to do.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(1024)
    except (OSError, OverflowError) as error:
        listener.close()
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            raise PortError(
                f"port {port} on {host} is in use; stop the other server or choose another --port"
            ) from error
        raise PortError(f"cannot listen on {host}:{port}: {error}") from error
    listener.set_inheritable(True)
    return listener


class _Server(uvicorn.Server):
    """Tells the app to drain as soon as the signal comes; a second signal ends it at once, as uvicorn does."""

    def handle_exit(self, sig: int, frame: types.FrameType | None) -> None:
        service = getattr(getattr(self.config.app, "state", None), "service", None)
        if service is not None:
            service.draining = True
        super().handle_exit(sig, frame)
        self._captured_signals.clear()  # uvicorn would raise the signal again after a clean stop.


def _uvicorn_config(app: FastAPI | str, settings: ServerSettings, log_level: str, **more: int | bool) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_level=log_level,
        log_config=None,  # The process's own JSON lines.
        access_log=False,  # Our own line names no path arguments and no query text.
        timeout_graceful_shutdown=settings.service.drain_s,
        timeout_keep_alive=75,
        **more,  # type: ignore[arg-type]
    )


def _serve_with_workers(
    settings: ServerSettings,
    listener: socket.socket,
    url: str,
    workers: int,
    ready_file: str | Path | None,
    log_level: str,
) -> None:
    from uvicorn.supervisors import Multiprocess

    build_app(settings)  # A broken index is told once, here, not by every worker again and again.
    os.environ[_SETTINGS_VARIABLE] = settings.model_dump_json()
    target = f"{__name__}:{app_from_environment.__name__}"
    config = _uvicorn_config(target, settings, log_level, factory=True, workers=workers)
    _announce(url, ready_file)
    Multiprocess(config, sockets=[listener]).run()


def _announce(url: str, ready_file: str | Path | None) -> None:
    print(f"Legal Assistant listening on {url} (pid {os.getpid()})", flush=True)
    if ready_file:
        path = Path(ready_file)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_text(f"{os.getpid()} {url}\n", encoding="utf-8")
        os.replace(temporary, path)
