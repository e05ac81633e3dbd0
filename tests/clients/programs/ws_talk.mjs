// SPDX-License-Identifier: MIT
// The ws package, or undici's WebSocket, which may speak HTTP/2.
import { createRequire } from "node:module";

const { BASE, TOKEN, MODULES, UNDICI } = process.env;
const headers = { authorization: `Bearer ${TOKEN}` };
let socket;
if (UNDICI) {
	const { Agent, WebSocket } = await import(UNDICI);
	socket = new WebSocket(BASE, { dispatcher: new Agent({ allowH2: process.argv[2] === "h2" }), headers });
} else {
	const { WebSocket } = createRequire(MODULES)("ws");
	socket = new WebSocket(BASE, { headers });
}
socket.binaryType = "arraybuffer";

const next = (name) => new Promise((resolve, reject) => {
	socket.addEventListener(name, resolve, { once: true });
	socket.addEventListener("error", (event) => reject(event.error ?? new Error("error")), { once: true });
});

async function say(data) {
	const got = next("message");
	socket.send(data);
	return (await got).data;
}

const said = {};
await next("open");
said.hello = await say("hello");
said.who = await say("who am I?");
said.large = await say("0123456789".repeat(20000)) === "0123456789".repeat(20000);
const bytes = new Uint8Array(76800).map((_, i) => i & 255);
said.binary = Buffer.from(await say(bytes)).equals(Buffer.from(bytes));
const closed = next("close");
socket.close(1000);
// undici does not notice the end of a stream of HTTP/2, whoever the server is.
said.closed = process.argv[2] === "h2" ? null : (await closed).code;
console.log(JSON.stringify(said));
process.exit(0);
