// SPDX-License-Identifier: MIT
// The origin of every client: HTTP/1.1 and HTTP/2 over TLS, and a line of JSON on stdout for each
// request that says what arrived. What a path answers:
//
//   /echo          what arrived, as JSON, in the coding that was asked for; a field of it as well
//   /blob          BLOB_BYTES of text
//   /events        server-sent events that show the caller's secret
//   /v1/...        what the SDKs of LLMs expect, whole or as events
//   /ws            WebSocket, by Upgrade or by extended CONNECT: every message comes back
//   /git/...       git http-backend, for who has the secret
//   /files/...     a directory, for who has the secret
//
//   node origin.mjs CERTIFICATE KEY FILES SECRET h1|h2
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import fs from "node:fs";
import http2 from "node:http2";
import https from "node:https";
import path from "node:path";
import zlib from "node:zlib";

const [certificate, key, files, secret, http] = process.argv.slice(2);
const BLOB_BYTES = 1 << 20;
const CODINGS = { br: zlib.brotliCompressSync, gzip: zlib.gzipSync, deflate: zlib.deflateSync };

function tell(record) {
	process.stdout.write(JSON.stringify(record) + "\n");
}

async function bodyOf(request) {
	const pieces = [];
	for await (const piece of request)
		pieces.push(piece);
	return Buffer.concat(pieces);
}

// Of a request that a stream of HTTP/2 or a connection of HTTP/1.1 brought.
function socketOf(request) {
	return request.stream?.session?.socket ?? request.socket;
}

function describe(request, body) {
	const socket = socketOf(request);
	return {
		http: request.httpVersion, alpn: socket.alpnProtocol || null, tls: socket.getProtocol(),
		sni: socket.servername, host: request.headers[":authority"] ?? request.headers.host,
		method: request.method, path: request.url, headers: { ...request.headers },
		raw: request.rawHeaders, trailers: { ...request.trailers },
		length: body.length, sha256: createHash("sha256").update(body).digest("hex"),
	};
}

// ---- replies ----

function answer(reply, status, fields, body) {
	reply.writeHead(status, { "content-length": Buffer.byteLength(body), ...fields });
	reply.end(body);
}

function echo(request, reply, record) {
	const asked = String(request.headers["accept-encoding"] ?? "");
	const coding = Object.keys(CODINGS).find((name) => asked.includes(name));
	const text = JSON.stringify(record);
	const fields = { "content-type": "application/json", "x-reflected": request.headers.authorization ?? "" };
	if (coding)
		fields["content-encoding"] = record.coding = coding;
	answer(reply, 200, fields, coding ? CODINGS[coding](text) : text);
}

function blob(request, reply) {
	answer(reply, 200, { "content-type": "text/plain" }, "0123456789abcdef".repeat(BLOB_BYTES / 16));
}

function credentials(request) {
	const field = request.headers.authorization ?? "";
	const basic = /^Basic (.*)$/i.exec(field);
	return basic ? Buffer.from(basic[1], "base64").toString() : field;
}

function isKnown(request, reply) {
	if (credentials(request).includes(secret))
		return true;
	answer(reply, 401, { "www-authenticate": 'Basic realm="origin"' }, "who are you?\n");
	return false;
}

function file(request, reply) {
	if (!isKnown(request, reply))
		return;
	let name = path.join(files, path.normalize(decodeURIComponent(request.url.replace(/^\/files|\?.*/g, ""))));
	let data;
	try {
		if (fs.statSync(name).isDirectory())
			name = path.join(name, "index.html");
		data = fs.readFileSync(name);
	} catch {
		return answer(reply, 404, {}, "nothing here\n");
	}
	const types = { ".html": "text/html", ".json": "application/json" };
	answer(reply, 200, { "content-type": types[path.extname(name)] ?? "application/octet-stream" }, data);
}

// ---- server-sent events ----

function pause() {
	return new Promise((resolve) => setTimeout(resolve, 5));
}

async function stream(reply, events) {
	reply.writeHead(200, { "content-type": "text/event-stream" });
	for (const event of events) {
		if (reply.destroyed || reply.stream?.destroyed)
			return;
		reply.write(event);
		await pause();
	}
	reply.end();
}

function events(request, reply) {
	const shown = credentials(request);
	const cut = shown.length >> 1; // an event of two writes: the secret is in neither
	return stream(reply, [`data: ${shown}\n\n`, `data: ${shown.slice(0, cut)}`, `${shown.slice(cut)}\n\n`]);
}

function keyOf(request) {
	return request.headers["x-api-key"] ?? request.headers.authorization ?? "";
}

function openai(request, reply, body) {
	const asked = JSON.parse(body);
	const said = ["You ", "are ", keyOf(request)];
	const head = { id: "c1", created: 1, model: asked.model };
	if (!asked.stream) {
		const message = { role: "assistant", content: said.join("") };
		return answer(reply, 200, { "content-type": "application/json" }, JSON.stringify({
			...head, object: "chat.completion", choices: [{ index: 0, finish_reason: "stop", message }],
			usage: { prompt_tokens: 1, completion_tokens: 3, total_tokens: 4 } }));
	}
	const chunk = (delta, finish_reason = null) => "data: " + JSON.stringify({
		...head, object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }] }) + "\n\n";
	return stream(reply, [...said.map((content) => chunk({ content })), chunk({}, "stop"), "data: [DONE]\n\n"]);
}

function anthropic(request, reply, body) {
	const asked = JSON.parse(body);
	const said = ["You ", "are ", keyOf(request)];
	const message = { id: "m1", type: "message", role: "assistant", model: asked.model, stop_sequence: null,
			  stop_reason: null, content: [], usage: { input_tokens: 1, output_tokens: 3 } };
	if (!asked.stream)
		return answer(reply, 200, { "content-type": "application/json" }, JSON.stringify({
			...message, stop_reason: "end_turn", content: [{ type: "text", text: said.join("") }] }));
	const event = (type, more) => `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;
	return stream(reply, [
		event("message_start", { message }),
		event("content_block_start", { index: 0, content_block: { type: "text", text: "" } }),
		...said.map((text) => event("content_block_delta", { index: 0, delta: { type: "text_delta", text } })),
		event("content_block_stop", { index: 0 }),
		event("message_delta", { delta: { stop_reason: "end_turn", stop_sequence: null }, usage: { output_tokens: 3 } }),
		event("message_stop", {}),
	]);
}

function refuse(request, reply) {
	answer(reply, 429, { "content-type": "application/json", "x-should-retry": "false" },
	       JSON.stringify({ error: { type: "rate_limit", message: `too many with ${keyOf(request)}` } }));
}

// ---- git ----

function git(request, reply, body) {
	if (!isKnown(request, reply))
		return;
	const [name, query] = request.url.replace(/^\/git/, "").split("?");
	const backend = spawn("git", ["http-backend"], { stdio: ["pipe", "pipe", "inherit"], env: {
		PATH: process.env.PATH, GIT_PROJECT_ROOT: path.join(files, "git"), GIT_HTTP_EXPORT_ALL: "1",
		GIT_CONFIG_COUNT: "1", GIT_CONFIG_KEY_0: "safe.directory", GIT_CONFIG_VALUE_0: "*",
		REMOTE_USER: "agent", REMOTE_ADDR: "127.0.0.1", REQUEST_METHOD: request.method, PATH_INFO: name,
		QUERY_STRING: query ?? "", CONTENT_TYPE: request.headers["content-type"] ?? "",
		CONTENT_LENGTH: String(body.length),
		HTTP_CONTENT_ENCODING: request.headers["content-encoding"] ?? "",
		HTTP_GIT_PROTOCOL: request.headers["git-protocol"] ?? "" } });
	const pieces = [];
	backend.stdout.on("data", (piece) => pieces.push(piece));
	backend.on("close", () => {
		const all = Buffer.concat(pieces);
		const end = all.indexOf("\r\n\r\n");
		const lines = all.subarray(0, end).toString().split("\r\n").map((line) => line.split(": "));
		const fields = Object.fromEntries(lines.map(([field, value]) => [field.toLowerCase(), value]));
		const status = Number.parseInt(fields.status ?? "200", 10);
		delete fields.status;
		answer(reply, status, fields, all.subarray(end + 4));
	});
	backend.stdin.end(body);
}

const PLACES = [
	["/echo", echo], ["/blob", blob], ["/events", events], ["/git/", git], ["/files/", file],
	["/v1/chat/completions", openai], ["/v1/messages", anthropic], ["/v1/models", refuse],
];

async function serve(request, reply) {
	// A client that goes away in the middle is its own business.
	for (const side of [request, reply, request.stream])
		side?.on("error", () => {});
	const body = await bodyOf(request).catch(() => null);
	if (!body)
		return;
	const record = describe(request, body);
	const place = PLACES.find(([prefix]) => request.url.startsWith(prefix));
	if (!place)
		answer(reply, 404, {}, "nothing here\n");
	else if (place[1] === echo)
		echo(request, reply, record);
	else
		place[1](request, reply, body);
	tell(record);
}

// ---- WebSocket: every message comes back, masked in no direction but the client's ----

function frame(opcode, data) {
	const head = data.length < 126 ? [data.length] :
		data.length < 65536 ? [126, data.length >> 8, data.length & 255] :
		[127, 0, 0, 0, 0, ...[24, 16, 8, 0].map((shift) => (data.length >>> shift) & 255)];
	return Buffer.concat([Buffer.from([0x80 | opcode, ...head]), data]);
}

// Takes one whole frame off the front, or returns null when there is none yet.
function unframe(data) {
	if (data.length < 2)
		return null;
	let [length, at] = [data[1] & 127, 2];
	if (length === 126 && data.length >= 4)
		[length, at] = [data.readUInt16BE(2), 4];
	else if (length === 127 && data.length >= 10)
		[length, at] = [Number(data.readBigUInt64BE(2)), 10];
	else if (length >= 126)
		return null;
	if (data.length < at + 4 + length)
		return null;
	const mask = data.subarray(at, at + 4);
	const payload = Buffer.from(data.subarray(at + 4, at + 4 + length)).map((byte, i) => byte ^ mask[i & 3]);
	return { isLast: data[0] >> 7, opcode: data[0] & 15, payload, rest: data.subarray(at + 4 + length) };
}

function converse(wire, record, first) {
	let [data, kind, pieces] = [first, 0, []];
	const take = ({ isLast, opcode, payload }) => {
		if (opcode === 8) {
			wire.write(frame(8, payload));
			wire.end();
		} else if (opcode === 9) {
			wire.write(frame(10, payload));
		} else if (opcode < 3) {
			kind = opcode || kind;
			pieces.push(payload);
			if (!isLast)
				return;
			const whole = Buffer.concat(pieces);
			pieces = [];
			tell({ message: whole.length < 1000 ? whole.toString() : null, length: whole.length,
			       sha256: createHash("sha256").update(whole).digest("hex") });
			wire.write(frame(kind, whole.toString() === "who am I?" ? Buffer.from(credentials(record)) : whole));
		}
	};
	wire.on("data", (piece) => {
		data = Buffer.concat([data, piece]);
		for (let found; (found = unframe(data)); data = found.rest)
			take(found);
	});
	wire.on("end", () => wire.end());
	wire.on("error", () => {});
}

function acceptOf(request) {
	return createHash("sha1").update(request.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")
		.digest("base64");
}

function upgrade(request, socket, head) {
	const record = describe(request, Buffer.alloc(0));
	tell({ ...record, upgrade: "h1" });
	socket.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		     `Sec-WebSocket-Accept: ${acceptOf(request)}\r\nX-Reflected: ${request.headers.authorization ?? ""}\r\n\r\n`);
	converse(socket, record, head);
}

function connect(request, reply) {
	const record = describe(request, Buffer.alloc(0));
	tell({ ...record, upgrade: request.headers[":protocol"] ?? null });
	if (request.headers[":protocol"] !== "websocket")
		return reply.stream.close(http2.constants.NGHTTP2_REFUSED_STREAM);
	const fields = { ":status": 200, "x-reflected": request.headers.authorization ?? "" };
	if (request.headers["sec-websocket-key"]) // not of RFC 8441, but some want an answer to it
		fields["sec-websocket-accept"] = acceptOf(request);
	reply.stream.respond(fields);
	converse(reply.stream, record, Buffer.alloc(0));
}

const pair = { cert: fs.readFileSync(certificate), key: fs.readFileSync(key) };
const server = http === "h2" ?
	http2.createSecureServer({ ...pair, allowHTTP1: true, settings: { enableConnectProtocol: true } }, serve) :
	https.createServer({ ...pair, ALPNProtocols: ["http/1.1"] }, serve);
server.on("upgrade", upgrade);
server.on("connect", connect);
server.on("sessionError", () => {});
server.listen(0, "127.0.0.1", () => tell({ port: server.address().port }));
