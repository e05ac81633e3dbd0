// SPDX-License-Identifier: MIT
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.WebSocket;
import java.nio.ByteBuffer;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** The WebSocket of java.net.http. */
public class WebSocketTalk {
	static final BlockingQueue<String> got = new LinkedBlockingQueue<>();

	static class Listener implements WebSocket.Listener {
		final StringBuilder text = new StringBuilder();
		int bytes;

		@Override
		public CompletionStage<?> onText(WebSocket socket, CharSequence data, boolean isLast) {
			text.append(data);
			if (isLast) {
				got.add(text.toString());
				text.setLength(0);
			}
			socket.request(1);
			return null;
		}

		@Override
		public CompletionStage<?> onBinary(WebSocket socket, ByteBuffer data, boolean isLast) {
			bytes += data.remaining();
			if (isLast)
				got.add("bytes " + bytes);
			socket.request(1);
			return null;
		}

		@Override
		public CompletionStage<?> onClose(WebSocket socket, int status, String reason) {
			got.add("closed " + status);
			return null;
		}
	}

	static String next() throws Exception {
		return got.poll(10, TimeUnit.SECONDS);
	}

	public static void main(String[] args) throws Exception {
		WebSocket socket = HttpClient.newHttpClient().newWebSocketBuilder()
				.header("Authorization", "Bearer " + System.getenv("TOKEN"))
				.buildAsync(URI.create(System.getenv("BASE")), new Listener()).get(10, TimeUnit.SECONDS);
		String large = "0123456789".repeat(20000);

		socket.sendText("hello", true).get();
		String hello = next();
		socket.sendText("who am I?", true).get();
		String who = next();
		socket.sendText(large, true).get();
		boolean isLarge = large.equals(next());
		socket.sendBinary(ByteBuffer.allocate(76800), true).get();
		boolean isBinary = "bytes 76800".equals(next());
		socket.sendClose(WebSocket.NORMAL_CLOSURE, "").get();
		System.out.printf("{\"hello\":\"%s\",\"who\":\"%s\",\"large\":%b,\"binary\":%b,\"closed\":%s}%n", hello, who, isLarge,
				isBinary, next().split(" ")[1]);
	}
}
