"""A device: connects, says what it was told, and publishes a report if it was let in."""

import os
import ssl
import sys

import paho.mqtt.client as mqtt

port, version, client_id, username, password, ca, certificate, key = sys.argv[1:]
protocol = {"3.1.1": mqtt.MQTTv311, "5": mqtt.MQTTv5}[version]


def end(said):
    print(said, flush=True)
    os._exit(0)


def on_connect(client, userdata, flags, reason, properties=None):
    code = int(getattr(reason, "value", reason))
    if code != 0:
        end(f"connack {code}")
    client.publish("$thing/up/property/" + client_id.replace("&", "/"), b"a report", qos=1)


def on_publish(client, userdata, mid, *rest):
    end("connack 0")


def on_disconnect(client, userdata, *rest):
    end("closed")


# The older callbacks say the codes of 3.1.1 as they are.
client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION1, client_id=client_id, protocol=protocol)
if username or password:
    client.username_pw_set(username, password)
if ca:
    client.tls_set(ca_certs=ca, certfile=certificate or None, keyfile=key or None)
client.on_connect = on_connect
client.on_publish = on_publish
client.on_disconnect = on_disconnect
try:
    client.connect("127.0.0.1", int(port))
    client.loop_forever(retry_first_connection=False)
except (ssl.SSLError, ConnectionError):
    end("closed")
