// SPDX-License-Identifier: MIT
// Node's https module.
import https from "node:https";

const { BASE, TOKEN } = process.env;

function ask(path, options, data) {
	return new Promise((resolve, reject) => {
		const request = https.request(BASE + path, options, async (reply) => {
			let text = "";
			reply.setEncoding("utf8");
			for await (const piece of reply)
				text += piece;
			resolve([reply.statusCode, `HTTP/${reply.httpVersion}`, text]);
		});
		request.on("error", reject);
		request.end(data);
	});
}

for (const [options, data] of [
	[{ headers: { authorization: `Bearer ${TOKEN}` } }],
	[{ headers: { "x-api-key": TOKEN }, method: "POST" }, "0123456789".repeat(10000)],
]) {
	const [status, version, text] = await ask("/echo", options, data);
	console.log(JSON.stringify({ status, version, body: JSON.parse(text) }));
}
const [status, version, text] = await ask("/blob", { headers: { "x-api-key": TOKEN } });
console.log(JSON.stringify({ status, version, length: text.length }));
