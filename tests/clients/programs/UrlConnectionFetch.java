// SPDX-License-Identifier: MIT
import java.io.OutputStream;
import java.net.URL;
import javax.net.ssl.HttpsURLConnection;

/** HttpsURLConnection, what older Java programs and most build tools use. */
public class UrlConnectionFetch {
	static HttpsURLConnection connection;

	static String ask(String path, String name, String value, String body) throws Exception {
		connection = (HttpsURLConnection) new URL(System.getenv("BASE") + path).openConnection();
		connection.setRequestProperty(name, value);
		if (body != null) {
			connection.setDoOutput(true);
			try (OutputStream out = connection.getOutputStream()) {
				out.write(body.getBytes());
			}
		}
		return new String(connection.getInputStream().readAllBytes());
	}

	static void show(String name, Object value) throws Exception {
		System.out.printf("{\"status\":%d,\"version\":\"%s\",\"%s\":%s}%n", connection.getResponseCode(),
				connection.getHeaderField(0).split(" ")[0], name, value);
	}

	public static void main(String[] args) throws Exception {
		String token = System.getenv("TOKEN");

		show("body", ask("/echo", "Authorization", "Bearer " + token, null));
		show("body", ask("/echo", "X-Api-Key", token, "0123456789".repeat(10000)));
		show("length", ask("/blob", "X-Api-Key", token, null).length());
	}
}
