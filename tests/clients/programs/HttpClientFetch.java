// SPDX-License-Identifier: MIT
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;

/** java.net.http.HttpClient, as it is made by default. */
public class HttpClientFetch {
	static final HttpClient client = HttpClient.newHttpClient();

	static HttpResponse<String> ask(String path, String method, BodyPublisher body, String... field) throws Exception {
		return client.send(HttpRequest.newBuilder(URI.create(System.getenv("BASE") + path))
				.method(method, body).headers(field).build(), BodyHandlers.ofString());
	}

	static void show(HttpResponse<String> reply, String name, Object value) {
		System.out.printf("{\"status\":%d,\"version\":\"%s\",\"%s\":%s}%n", reply.statusCode(), reply.version(), name, value);
	}

	public static void main(String[] args) throws Exception {
		String token = System.getenv("TOKEN");
		HttpResponse<String> reply = ask("/echo", "GET", BodyPublishers.noBody(), "Authorization", "Bearer " + token);

		show(reply, "body", reply.body());
		reply = ask("/echo", "POST", BodyPublishers.ofString("0123456789".repeat(10000)), "X-Api-Key", token);
		show(reply, "body", reply.body());
		reply = ask("/blob", "GET", BodyPublishers.noBody(), "X-Api-Key", token);
		show(reply, "length", reply.body().length());
	}
}
