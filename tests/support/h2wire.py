# SPDX-License-Identifier: MIT
"""HTTP/2 by Python's h2 on both ends of a test: the agent's connections, and origins."""
import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import origin as upstream


class Message:
    """What has come on a stream so far."""

    def __init__(self):
        self.headers, self.trailers = [], []
        self.interim = []
        self.body = b""
        self.pieces = []
        self.is_complete = False
        self.reset = None  # the code

    def values(self, name):
        return [value for got, value in self.headers if got == name]

    @property
    def status(self):
        return int(self.values(":status")[0])


def text(headers):
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]


class End:
    """One end of a connection; `receive` brings bytes, b"" at the end, and `send` takes them."""

    def __init__(self, is_client, receive, send, **settings):
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(
            client_side=is_client, header_encoding=None, validate_outbound_headers=False,
            normalize_outbound_headers=False, validate_inbound_headers=False))
        self.receive, self._send = receive, send
        self.streams = {}
        self.unread = set()  # streams whose bytes are left lying
        self.is_over = False
        self.goaway = None
        for name, value in settings.items():
            setattr(self.h2.local_settings, name, value)
        self.h2.initiate_connection()
        self.flush()

    def flush(self):
        data = self.h2.data_to_send()
        if data:
            self._send(data)

    def stream(self, number):
        return self.streams.setdefault(number, Message())

    def _on(self, event):
        if isinstance(event, h2.events.ConnectionTerminated):
            self.goaway = event.error_code
        if not getattr(event, "stream_id", None):
            return
        message = self.stream(event.stream_id)
        if isinstance(event, (h2.events.RequestReceived, h2.events.ResponseReceived)):
            message.headers = text(event.headers)
        elif isinstance(event, h2.events.InformationalResponseReceived):
            message.interim.append(text(event.headers))
        elif isinstance(event, h2.events.TrailersReceived):
            message.trailers = text(event.headers)
        elif isinstance(event, h2.events.DataReceived):
            message.body += event.data
            message.pieces.append(event.data)
            if event.stream_id in self.unread:
                self.h2.increment_flow_control_window(event.flow_controlled_length)
            elif event.flow_controlled_length:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            message.is_complete = True
        elif isinstance(event, h2.events.StreamReset):
            message.reset = event.error_code

    def turn(self):
        """Takes in what comes next; False at the end."""
        data = self.receive()
        if not data:
            self.is_over = True
            return False
        for event in self.h2.receive_data(data):
            self._on(event)
        self.flush()
        return True

    def until(self, condition):
        """Goes on until it holds; False when the connection ended before."""
        while not condition():
            if not self.turn():
                return False
        return True

    def send_headers(self, number, headers, end=False):
        self.h2.send_headers(number, headers, end_stream=end)
        self.flush()

    def send(self, number, data, end=False):
        """A body, as the other side's windows allow."""
        while data:
            room = min(self.h2.local_flow_control_window(number), self.h2.max_outbound_frame_size, len(data))
            if room == 0:
                if not self.turn():
                    raise ConnectionResetError
                continue
            self.h2.send_data(number, data[:room])
            data = data[room:]
            self.flush()
        if end:
            self.h2.end_stream(number)
            self.flush()

    def reset(self, number, code=h2.errors.ErrorCodes.CANCEL):
        self.h2.reset_stream(number, code)
        self.flush()


class Client(End):
    """The agent's end, on a wire with TLS."""

    def __init__(self, wire, **settings):
        super().__init__(True, lambda: wire.more(), wire.send, **settings)
        self.wire = wire

    def request(self, method="GET", path="/", *fields, host="api.test", body=None, end=True, scheme="https"):
        """Begins a stream; returns its number."""
        number = self.h2.get_next_available_stream_id()
        headers = [(":method", method), (":scheme", scheme), (":authority", host), (":path", path), *fields]
        self.send_headers(number, headers, end and body is None)
        if body is not None:
            self.send(number, body, end)
        return number

    def reply(self, number):
        """The whole reply, or how far it came."""
        message = self.stream(number)
        self.until(lambda: message.is_complete or message.reset is not None)
        return message

    def ask(self, *words, **options):
        return self.reply(self.request(*words, **options))


class Server(End):
    """An origin's end."""

    def __init__(self, connection, **settings):
        super().__init__(False, lambda: self._receive(connection), connection.send, **settings)
        self._answered = set()

    @staticmethod
    def _receive(connection):
        try:
            return connection.more()
        except upstream.Gone:
            return b""

    def ready(self, whole=True):
        """The number of a request that was not given out yet, or None."""
        for number, message in self.streams.items():
            if number not in self._answered and message.headers and (message.is_complete or not whole):
                return number
        return None

    def next(self, whole=True):
        """The next one; None at the end."""
        if not self.until(lambda: self.ready(whole)):
            return None
        number = self.ready(whole)
        self._answered.add(number)
        return number

    def answer(self, number, body=b"", *fields, status=200, trailers=()):
        headers = [(":status", str(status)), *fields]
        self.send_headers(number, headers, end=not body and not trailers)
        if body:
            self.send(number, body, end=not trailers)
        if trailers:
            self.send_headers(number, list(trailers), end=True)
