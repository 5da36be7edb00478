"""The work protocol as Django answers it, behind the same uvicorn: what the edge is compared with.

python -m benchmarks.through_django
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "croniq_site.settings")
    import django

    django.setup()
    from croniq_site.asgi import Application
    from scheduler.api.work.edge import Edge
    from scheduler.api.work.server import Server, listening_socket, url_of

    class ThroughDjango(Application):
        async def __call__(self, scope: dict[str, Any], receive: Callable, send: Callable) -> None:
            if scope["type"] == "http":
                await self._page(scope, receive, send)
            else:
                await super().__call__(scope, receive, send)

    listener = listening_socket("127.0.0.1", 0)

    def say() -> None:
        sys.stdout.write(f"Croniq serves {url_of(listener)}\n")
        sys.stdout.flush()

    Server(ThroughDjango(Edge()), is_ready=say).run([listener])


if __name__ == "__main__":
    main()
