// SPDX-License-Identifier: MIT
// undici.request, on one connection.
import diagnostics from "node:diagnostics_channel";

const { BASE, TOKEN, UNDICI } = process.env;
const { Client } = await import(UNDICI);
const client = new Client(BASE, { allowH2: process.argv[2] === "h2" });
let version;
diagnostics.subscribe("undici:client:connected", ({ socket }) => {
	version = socket.alpnProtocol === "h2" ? "HTTP/2" : "HTTP/1.1";
});

async function ask(path, options) {
	const { statusCode, body } = await client.request({ path, method: "GET", ...options });
	return [statusCode, await body.text()];
}

for (const options of [
	{ headers: { authorization: `Bearer ${TOKEN}` } },
	{ headers: { "x-api-key": TOKEN }, method: "POST", body: "0123456789".repeat(10000) },
]) {
	const [status, text] = await ask("/echo", options);
	console.log(JSON.stringify({ status, version, body: JSON.parse(text) }));
}
const [status, text] = await ask("/blob", { headers: { "x-api-key": TOKEN } });
console.log(JSON.stringify({ status, version, length: text.length }));
await client.close();
