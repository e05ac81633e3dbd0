# SPDX-License-Identifier: MIT
"""An upstream that is LiteLLM as far as the money goes: calls with ids and costs, and a log of them."""
import json
import threading
import urllib.parse

import origin as upstream


class Ledger:
    """The script of an origin, and the rows that it tells at /spend/logs."""

    def __init__(self, key):
        self.key = key
        self.rows = []
        self.questions = []  # the queries of /spend/logs, as dictionaries
        self.pages = {}  # a path and what it answers instead of the rows
        self.fields = ()  # of the answer
        self.status = 200
        self._lock = threading.Lock()

    def script(self, connection):
        for request in connection.requests():
            url = urllib.parse.urlsplit(request.target)
            if url.path.startswith("/spend/logs"):
                self._tell(connection, request, url)
            else:
                self._call(connection, request)

    def add(self, end_user, number, cost, **more):
        """A row as LiteLLM's table has it."""
        row = {"request_id": f"chatcmpl-{number}", "call_type": "acompletion", "api_key": "hashed",
               "spend": cost, "total_tokens": 30, "startTime": "2026-11-15T12:00:00.000000Z",
               "endTime": "2026-11-15T12:00:01.000000Z", "model": "openai/gpt-4o", "model_group": "m",
               "messages": [{"role": "user", "content": "\"litellm_call_id\": \"no\" {[" * 50}],
               "metadata": {"usage_object": {"a": [1, {"litellm_call_id": "no"}]},
                            "litellm_call_id": f"call-{number}", "spend_logs_metadata": None},
               "end_user": end_user, "cache_hit": "None", "status": "success",
               "litellm_call_id": f"call-{number}", **more}
        with self._lock:
            self.rows.append(row)
        return row

    def _call(self, connection, request):
        with self._lock:
            number = len(self.rows) + 1
        end_user = request.values("x-litellm-end-user-id")[0]
        told = json.loads(request.values("x-litellm-spend-logs-metadata")[0])
        cost = number / 1000
        is_stream = json.loads(request.body or b"{}").get("stream")
        row = self.add(end_user, number, cost)
        row["metadata"]["spend_logs_metadata"] = told
        if is_stream:
            connection.send(upstream.CHUNKED.replace(
                b"\r\n\r\n", b"\r\nx-litellm-call-id: call-%d\r\n\r\n" % number))
            connection.send(upstream.chunk(b"data: {}\n\n") + upstream.LAST_CHUNK)
        else:
            connection.answer(fields=[("x-litellm-call-id", f"call-{number}"),
                                      ("x-litellm-response-cost", repr(cost))])

    def _tell(self, connection, request, url):
        query = dict(urllib.parse.parse_qsl(url.query))
        self.questions.append({"path": url.path, **query})
        if request.values("authorization") != [f"Bearer {self.key}"]:
            connection.answer(b'{"error":"no"}', status=401)
            return
        answer = self.pages.get(url.path, lambda query: (self.rows, self.fields))(query)
        connection.answer(json.dumps(answer[0]).encode(), status=self.status, fields=answer[1])
