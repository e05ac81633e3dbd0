# SPDX-License-Identifier: MIT
"""The real LiteLLM on loopback, with models that answer by themselves."""
import json
import os
import pathlib
import subprocess
import urllib.request

import checks
import origin as upstream

HERE = pathlib.Path(__file__).resolve().parent


class Litellm:
    """One proxy; `python` is of an environment that has it. JSON is YAML, too."""

    def __init__(self, python, top, key, has_stream_cost):
        self.key = key
        self._port_holder, self.port = upstream.refusing_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._rows = pathlib.Path(top) / "rows.jsonl"
        config = pathlib.Path(top) / "config.yaml"
        config.write_text(json.dumps({
            "model_list": [{"model_name": "m", "litellm_params": {
                "model": "openai/gpt-4o", "api_key": "none", "mock_response": "hello there"}}],
            "general_settings": {"master_key": key},
            "litellm_settings": {"callbacks": "litellm_rows.rows", "include_cost_in_streaming_usage": has_stream_cost},
        }))
        (pathlib.Path(top) / "litellm_rows.py").write_text((HERE / "litellm_rows.py").read_text())
        self._log = open(pathlib.Path(top) / "litellm.log", "w+", encoding="utf-8")
        self._process = subprocess.Popen(
            [python, "-m", "litellm.proxy.proxy_cli", "--config", config, "--host", "127.0.0.1",
             "--port", str(self.port)], cwd=top, stdout=self._log, stderr=self._log, stdin=subprocess.DEVNULL,
            env={"PATH": os.environ["PATH"], "HOME": str(top), "PYTHONPATH": str(top), "PYTHONDONTWRITEBYTECODE": "1",
                 "WARDER_LITELLM_ROWS": str(self._rows), "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                 "LITELLM_TELEMETRY": "False", "NO_PROXY": "*"})
        checks.wait_until(self._answers, 120)

    def _answers(self):
        assert self._process.poll() is None, self.log()
        try:
            with urllib.request.urlopen(f"{self.url}/health/liveliness", timeout=5):
                return True
        except OSError:
            return False

    def log(self):
        self._log.seek(0)
        return self._log.read()[-4000:]

    def rows(self, count):
        """The rows, when there are so many: they are written behind the replies."""

        def found():
            assert self._process.poll() is None, self.log()
            lines = self._rows.read_text().splitlines()
            return [json.loads(line) for line in lines] if len(lines) >= count else None

        made = checks.wait_until(found, 30)
        assert len(made) == count, made
        return made

    def forget(self):
        self._rows.write_text("")

    def call(self, body, **headers):
        """A call by somebody else than warder."""
        request = urllib.request.Request(
            f"{self.url}/v1/chat/completions", json.dumps(body).encode(),
            {"authorization": f"Bearer {self.key}", "content-type": "application/json", **headers})
        with urllib.request.urlopen(request, timeout=30) as reply:
            return dict(reply.headers), reply.read()

    def close(self):
        self._process.terminate()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._port_holder.close()
        self._log.close()
