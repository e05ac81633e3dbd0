// SPDX-License-Identifier: MIT
// Node's http2 module: every request at once on one connection.
import http2 from "node:http2";

const { BASE, TOKEN } = process.env;
const session = http2.connect(BASE);
const failed = new Promise((_, reject) => session.on("error", reject));

function ask(fields, data) {
	return new Promise((resolve, reject) => {
		const stream = session.request(fields);
		let status, text = "";
		stream.setEncoding("utf8");
		stream.on("response", (head) => { status = head[":status"]; });
		stream.on("data", (piece) => { text += piece; });
		stream.on("end", () => resolve([status, text]));
		stream.on("error", reject);
		stream.end(data);
	});
}

const [got, posted, blob] = await Promise.race([failed, Promise.all([
	ask({ ":path": "/echo", authorization: `Bearer ${TOKEN}` }),
	ask({ ":path": "/echo", ":method": "POST", "x-api-key": TOKEN }, "0123456789".repeat(10000)),
	ask({ ":path": "/blob", "x-api-key": TOKEN }),
])]);
for (const [status, text] of [got, posted])
	console.log(JSON.stringify({ status, version: "HTTP/2", body: JSON.parse(text) }));
console.log(JSON.stringify({ status: blob[0], version: "HTTP/2", length: blob[1].length }));
session.close();
