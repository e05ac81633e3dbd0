# SPDX-License-Identifier: MIT
import json

import anthropic

client = anthropic.Anthropic()
asked = {"model": "claude", "max_tokens": 100, "messages": [{"role": "user", "content": "Who am I?"}]}
whole = client.messages.create(**asked)
with client.messages.stream(**asked) as stream:
    pieces = list(stream.text_stream)
try:
    client.models.list()
except anthropic.RateLimitError as error:
    refused = str(error)
print(json.dumps({"whole": whole.content[0].text, "pieces": pieces, "refused": refused}))
