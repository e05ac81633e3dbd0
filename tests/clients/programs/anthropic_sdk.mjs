// SPDX-License-Identifier: MIT
import { createRequire } from "node:module";

const Anthropic = createRequire(process.env.MODULES)("@anthropic-ai/sdk");
const client = new Anthropic();
const asked = { model: "claude", max_tokens: 100, messages: [{ role: "user", content: "Who am I?" }] };
const whole = await client.messages.create(asked);
const pieces = [];
await client.messages.stream(asked).on("text", (text) => pieces.push(text)).finalMessage();
const refused = await client.models.list().catch((error) => String(error));
console.log(JSON.stringify({ whole: whole.content[0].text, pieces, refused }));
