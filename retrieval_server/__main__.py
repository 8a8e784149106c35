"""`python -m retrieval_server INDEX_DIR [--host H] [--port P] [--workers N] [--config JSON]`: serve an index."""

from __future__ import annotations

import argparse
import sys

from retrieval_server.config import AssistantConfig, ServiceConfig
from retrieval_server.errors import LegalRLError
from retrieval_server.server import run_server


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 after a clean stop, 1 with one line on stderr when the service cannot start."""
    parser = argparse.ArgumentParser(prog="python -m retrieval_server", description="Serve the Legal Assistant.")
    parser.add_argument("index_dir")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--config", default="{}", help="AssistantConfig as JSON")
    parser.add_argument("--service", default="{}", help="ServiceConfig as JSON")
    parser.add_argument("--ready-file", default=None)
    parser.add_argument("--log-level", default="warning")
    given = parser.parse_args(arguments)
    try:
        run_server(
            given.index_dir,
            given.host,
            given.port,
            AssistantConfig.model_validate_json(given.config),
            given.workers,
            ServiceConfig.model_validate_json(given.service),
            given.ready_file,
            given.log_level,
        )
    except (LegalRLError, ValueError) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
