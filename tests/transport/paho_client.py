"""A device over WebSocket: subscribes, publishes 300,000 bytes, prints how many bytes the first message to it has."""

import sys

import paho.mqtt.client as mqtt

port, ca, version, client_id, username, password, up, down = sys.argv[1:]
protocol = {"3.1.1": mqtt.MQTTv311, "5": mqtt.MQTTv5}[version]


def on_connect(client, userdata, flags, reason, properties):
    assert reason == 0, reason
    client.subscribe(down, qos=1)


def on_subscribe(client, userdata, mid, reasons, properties):
    assert not reasons[0].is_failure, reasons
    client.publish(up, b"u" * 300_000, qos=1)


def on_publish(client, userdata, mid, reason, properties):
    assert reason == 0, reason
    print("ready", flush=True)


def on_message(client, userdata, message):
    print("received", len(message.payload), flush=True)
    client.disconnect()


client = mqtt.Client(
    mqtt.CallbackAPIVersion.VERSION2, client_id=client_id, protocol=protocol, transport="websockets"
)
client.username_pw_set(username, password)
client.ws_set_options(path="/mqtt")
if ca:
    client.tls_set(ca_certs=ca)
client.on_connect = on_connect
client.on_subscribe = on_subscribe
client.on_publish = on_publish
client.on_message = on_message
client.connect("127.0.0.1", int(port))
client.loop_forever()
