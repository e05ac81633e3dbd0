# SPDX-License-Identifier: MIT
"""Run tokens, as `warder token mint` makes them."""
import base64
import hashlib
import hmac

FAR = 4102444800  # an expiry that no test lives to see


def sign(data, key):
    """Any text with its signature; what makes a token of it is its form."""
    data = data if isinstance(data, bytes) else data.encode()
    digest = hmac.new(key.encode(), data, hashlib.sha256).digest()
    return (data + b"." + base64.urlsafe_b64encode(digest).rstrip(b"=")).decode("latin-1")


def token(run_id, key, attempt=0, expiry=FAR):
    return sign(f"{run_id}|{attempt}|{expiry}", key)
