// SPDX-License-Identifier: MIT
import { createRequire } from "node:module";

const OpenAI = createRequire(process.env.MODULES)("openai");
const client = new OpenAI();
const messages = [{ role: "user", content: "Who am I?" }];
const whole = await client.chat.completions.create({ model: "gpt", messages });
const pieces = [];
for await (const chunk of await client.chat.completions.create({ model: "gpt", messages, stream: true }))
	if (chunk.choices[0].delta.content)
		pieces.push(chunk.choices[0].delta.content);
const refused = await client.models.list().catch((error) => String(error));
console.log(JSON.stringify({ whole: whole.choices[0].message.content, pieces, refused }));
