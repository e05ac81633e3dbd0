# SPDX-License-Identifier: MIT
import json

import openai

client = openai.OpenAI()
messages = [{"role": "user", "content": "Who am I?"}]
whole = client.chat.completions.create(model="gpt", messages=messages)
stream = client.chat.completions.create(model="gpt", messages=messages, stream=True)
pieces = [chunk.choices[0].delta.content for chunk in stream if chunk.choices[0].delta.content]
try:
    client.models.list()
except openai.RateLimitError as error:
    refused = str(error)
print(json.dumps({"whole": whole.choices[0].message.content, "pieces": pieces, "refused": refused}))
