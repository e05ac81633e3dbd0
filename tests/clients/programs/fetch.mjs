// SPDX-License-Identifier: MIT
// Node's own fetch, or undici's, which may speak HTTP/2.
import diagnostics from "node:diagnostics_channel";

const { BASE, TOKEN, UNDICI } = process.env;
const undici = UNDICI ? await import(UNDICI) : globalThis;
const dispatcher = UNDICI ? new undici.Agent({ allowH2: process.argv[2] === "h2" }) : undefined;
let version;
diagnostics.subscribe("undici:client:connected", ({ socket }) => {
	version = socket.alpnProtocol === "h2" ? "HTTP/2" : "HTTP/1.1";
});

async function ask(path, init) {
	const reply = await undici.fetch(BASE + path, { dispatcher, ...init });
	return [reply.status, await reply.text()];
}

for (const init of [
	{ headers: { authorization: `Bearer ${TOKEN}` } },
	{ headers: { "x-api-key": TOKEN }, method: "POST", body: "0123456789".repeat(10000) },
]) {
	const [status, text] = await ask("/echo", init);
	console.log(JSON.stringify({ status, version, body: JSON.parse(text) }));
}
const [status, text] = await ask("/blob", { headers: { "x-api-key": TOKEN } });
console.log(JSON.stringify({ status, version, length: text.length }));
await dispatcher?.close();
