"""A device without a secret: registers itself, and logs in with the secret that it was told."""

import hashlib
import hmac
import json
import os
import sys
import time

import paho.mqtt.client as mqtt

port, product, name, product_secret = sys.argv[1:]


def end(said):
    print(said, flush=True)
    os._exit(0)


def client_of(client_id):
    return mqtt.Client(mqtt.CallbackAPIVersion.VERSION1, client_id=client_id)


def log_in(key):
    username = f"{product}&{name};12010126;A1B2C;{int(time.time()) + 600}"
    token = hmac.new(key, username.encode(), hashlib.sha256).hexdigest()
    device = client_of(f"{product}&{name}")
    device.username_pw_set(username, f"{token};hmacsha256")
    device.on_connect = lambda client, userdata, flags, code: end(
        "registered and logged in" if code == 0 else f"connack {code}"
    )
    device.connect("127.0.0.1", int(port))
    device.loop_forever()


def on_subscribe(client, userdata, mid, granted):
    nonce, timestamp = 4711, int(time.time())
    source = f"deviceName={name}&nonce={nonce}&productID={product}&timestamp={timestamp}"
    signature = hmac.new(product_secret.encode(), source.encode(), hashlib.sha1).hexdigest()
    payload = {"nonce": nonce, "timestamp": timestamp, "signature": signature, "retEnc": "hex"}
    request = json.dumps({"msgToken": "m", "payload": payload})
    client.publish(f"$ext/up/register/{product}/{name}", request, qos=1)


def on_message(client, userdata, message):
    answer = json.loads(message.payload)
    if answer["code"] != 200 or answer["msgToken"] != "m":
        end(message.payload.decode())
    client.disconnect()
    log_in(bytes.fromhex(json.loads(answer["data"]["payload"])["psk"]))


stranger = client_of(f"register&{product}&{name}")
stranger.on_connect = lambda client, userdata, flags, code: client.subscribe(
    f"$ext/down/register/{product}/{name}", qos=1
)
stranger.on_subscribe = on_subscribe
stranger.on_message = on_message
stranger.connect("127.0.0.1", int(port))
stranger.loop_forever()
