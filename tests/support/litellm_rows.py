# SPDX-License-Identifier: MIT
"""Loaded by LiteLLM itself: its spend log in a file, in place of the database that it cannot have here.

What a row says is LiteLLM's own: get_logging_payload is what it writes to its table, and /spend/logs is
answered by its own function. Only the table is ours.
"""
import json
import os
from datetime import datetime

from fastapi import Depends, Request, Response
from litellm.integrations.custom_logger import CustomLogger
from litellm.proxy import proxy_server
from litellm.proxy.auth.user_api_key_auth import user_api_key_auth
from litellm.proxy.spend_tracking.spend_management_endpoints import view_spend_logs
from litellm.proxy.spend_tracking.spend_tracking_utils import get_logging_payload

ROWS = os.environ["WARDER_LITELLM_ROWS"]


class Rows(CustomLogger):
    """Appends each call to the file."""

    @staticmethod
    def _add(kwargs, response_obj, start_time, end_time):
        row = get_logging_payload(kwargs=kwargs, response_obj=response_obj, start_time=start_time, end_time=end_time)
        with open(ROWS, "a", encoding="utf-8") as file:
            file.write(json.dumps(row, default=lambda value: value.isoformat()) + "\n")

    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        self._add(kwargs, response_obj, start_time, end_time)

    async def async_log_failure_event(self, kwargs, response_obj, start_time, end_time):
        self._add(kwargs, response_obj, start_time, end_time)


class Table:
    """As much of a database as view_spend_logs asks for."""

    def __init__(self):
        self.db = self
        self.litellm_spendlogs = self

    @staticmethod
    async def find_many(where, order, take):
        with open(ROWS, encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        for row in rows:
            row["metadata"] = json.loads(row["metadata"])  # a column of JSON
        window = where.get("startTime", {})
        start, end = (datetime.fromisoformat(window.get(name, "2000-01-01T00:00:00+00:00")) for name in ("gte", "lte"))
        found = [row for row in rows if not window or start <= datetime.fromisoformat(row["startTime"]) <= end]
        assert not set(where) - {"startTime"}, where
        return sorted(found, key=lambda row: row["startTime"], reverse=order["startTime"] == "desc")[:take]


async def spend_logs(request: Request, response: Response, key=Depends(user_api_key_auth)):
    """LiteLLM's own function, for the moment with a table."""
    query = request.query_params
    proxy_server.prisma_client = Table()
    try:
        return await view_spend_logs(
            fastapi_response=response, api_key=None, user_id=None, request_id=None, user_api_key_dict=key,
            start_date=query.get("start_date"), end_date=query.get("end_date"),
            summarize=query.get("summarize", "true") != "false")
    finally:
        proxy_server.prisma_client = None


open(ROWS, "a", encoding="utf-8").close()
proxy_server.app.add_api_route("/spend/logs", spend_logs, methods=["GET"])
proxy_server.app.router.routes.insert(0, proxy_server.app.router.routes.pop())
rows = Rows()
