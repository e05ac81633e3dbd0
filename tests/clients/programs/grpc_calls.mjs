// SPDX-License-Identifier: MIT
// Every kind of call with grpc-js.
import { createRequire } from "node:module";

const grpc = createRequire(process.env.MODULES)("@grpc/grpc-js");
const client = new grpc.Client("grpc.test:443", grpc.credentials.createSsl(), { "grpc.max_receive_message_length": 16 << 20 });
const same = (data) => data;
const fields = new grpc.Metadata();
fields.set("authorization", `Bearer ${process.env.TOKEN}`);
fields.set("x-bytes-bin", Buffer.from([0, 1, 255]));

const path = (name) => `/warder.Test/${name}`;
const name = (code) => grpc.status[code];

function shown(metadata) {
	return Object.fromEntries(Object.entries(metadata.getMap()).filter(([key]) => key.startsWith("x-"))
		.map(([key, value]) => [key, Buffer.isBuffer(value) ? [...value] : value]));
}

function ask(method, data, options = {}, onCall = () => {}) {
	return new Promise((resolve) => {
		const seen = {};
		const call = client.makeUnaryRequest(path(method), same, same, data, fields, options, (error, reply) => {
			seen.error = error;
			seen.reply = reply;
		});
		call.on("metadata", (metadata) => { seen.first = shown(metadata); });
		call.on("status", (status) => resolve({ ...seen, code: name(status.code), details: status.details,
							 last: shown(status.metadata) }));
		onCall(call);
	});
}

async function unary() {
	const { reply, first, last, code } = await ask("Unary", Buffer.from("hello"));
	return { reply: reply.toString(), first, last, code };
}

async function large() {
	const data = Buffer.alloc(3 << 20, "0123456789");
	return (await ask("Unary", data)).reply.equals(data);
}

async function fail() {
	const { code, details, last } = await ask("Fail", Buffer.alloc(0));
	return { code, details, last };
}

async function unknown() {
	return (await ask("Nothing", Buffer.alloc(0))).code;
}

async function count() {
	const replies = [];
	for await (const message of client.makeServerStreamRequest(path("Count"), same, same, Buffer.from("100"), fields))
		replies.push(message.toString());
	return replies;
}

function collect() {
	return new Promise((resolve, reject) => {
		const call = client.makeClientStreamRequest(path("Collect"), same, same, fields,
			(error, reply) => error ? reject(error) : resolve(reply.toString()));
		for (let number = 0; number < 1000; number++)
			call.write(Buffer.alloc(1000, "x"));
		call.end();
	});
}

// Each message is sent when the reply to the one before has come.
function converse() {
	return new Promise((resolve, reject) => {
		const call = client.makeBidiStreamRequest(path("Converse"), same, same, fields);
		const replies = [];
		let rest = 0;
		call.on("data", (message) => {
			if (replies.length === 10)
				rest++;
			else if (replies.push(message.toString()) === 10)
				call.end();
			else
				call.write(Buffer.from(String(replies.length)));
		});
		call.on("error", reject);
		call.on("status", (status) => resolve({ replies, rest, last: shown(status.metadata) }));
		call.write(Buffer.from("0"));
	});
}

async function deadline() {
	return (await ask("Linger", Buffer.alloc(0), { deadline: Date.now() + 2000 })).code;
}

async function cancel() {
	return (await ask("Linger", Buffer.alloc(0), {}, (call) => {
		call.on("metadata", () => call.cancel()); // it is under way when this has come
	})).code;
}

async function many() {
	const asked = [...Array(50).keys()].map((number) => ask("Unary", Buffer.from(String(number))));
	return (await Promise.all(asked)).every(({ reply }, number) => reply.toString() === String(number));
}

async function hide() {
	const { reply, code } = await ask("Hide", Buffer.alloc(0));
	return reply?.toString() ?? code;
}

const result = {};
for (const step of [unary, large, fail, unknown, count, collect, converse, deadline, cancel, many, hide])
	if (!process.env.STEP || process.env.STEP === step.name)
		result[step.name] = await step();
console.log(JSON.stringify(result));
client.close();
