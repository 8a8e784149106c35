"""The retrieval server beside a stage: started on a free port, watched, started again when it dies."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from legal_rl.quickstart import children

READY_TIMEOUT_S = 180.0


@contextmanager
def retrieval_server(index_dir: Path, config_file: Path, log: Path, restarts: int = 3) -> Iterator[str]:
    """Run `legal-rl serve retrieval` for as long as the block runs; yields its base URL.

    A server that dies is started again on the same port, `restarts` times at most; clients wait meanwhile.

    Raises:
        StageError: it did not come up; the text holds the last error of its log.
    """
    port = children.free_port()
    arguments = ["legal_rl", "serve", "retrieval", "--index", str(index_dir), "--port", str(port)]
    arguments += ["--config", str(config_file)]
    url = f"http://127.0.0.1:{port}"
    process = children.start(arguments, log)
    stopped = threading.Event()
    current = [process]

    def watch() -> None:
        left = restarts
        while not stopped.wait(1.0):
            code = current[0].poll()
            if code is not None and left > 0:
                left -= 1
                print(f"  the retrieval server {children.how_it_ended(code)}; started again, see {log}", flush=True)
                current[0] = children.start(arguments, log)

    # The kernel ends a child with the thread that started it: the watcher lives until the block is left.
    watcher = threading.Thread(target=watch, name="retrieval-watch", daemon=True)
    try:
        _wait_ready(url, log, process)
        watcher.start()
        yield url
    finally:
        stopped.set()
        if watcher.is_alive():
            watcher.join()
        children.stop(current[0])


def _wait_ready(url: str, log: Path, process) -> None:
    """Ready means that a request says so, not that a port is open."""
    import time

    import httpx

    from legal_rl.errors import StageError

    deadline = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            ended = children.how_it_ended(process.returncode)
            raise StageError(f"the retrieval server {ended}{children.last_error(log)}; see {log}")
        try:
            if httpx.get(f"{url}/readyz", timeout=2.0).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.2)
    raise StageError(f"the retrieval server was not ready within {READY_TIMEOUT_S:.0f} s; see {log}")
