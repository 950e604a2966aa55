"""A device that proves itself by SCRAM-SHA-256, whose arithmetic is scramp's; what it saw, printed as JSON.

paho speaks no AUTH, so the packets are put together here, from paho's properties.
"""

import json
import socket
import sys

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties, VariableByteIntegers
from scramp import ScramClient

DEADLINE_S = 30
METHOD = "SCRAM-SHA-256"
CONTINUE = 0x18
AGAIN = 0x19


def text(value):
    value = value.encode()
    return len(value).to_bytes(2, "big") + value


class Device:
    def __init__(self, address):
        self.socket = socket.create_connection(address, DEADLINE_S)
        self.stream = self.socket.makefile("rb")

    def send(self, kind, head, data, tail=b""):
        properties = Properties(kind)
        properties.AuthenticationMethod = METHOD
        if data is not None:
            properties.AuthenticationData = data.encode()
        body = head + properties.pack() + tail
        self.socket.sendall(bytes([kind << 4]) + VariableByteIntegers.encode(len(body)) + body)

    def connect(self, client_id, data):
        head = text("MQTT") + bytes([5, 2, 0, 60])
        self.send(PacketTypes.CONNECT, head, data, text(client_id))

    def auth(self, reason, data):
        self.send(PacketTypes.AUTH, bytes([reason]), data)

    def receive(self):
        """Kind, reason, method and data of the next packet."""
        kind = self.stream.read(1)[0] >> 4
        length, shift = 0, 0
        while True:
            byte = self.stream.read(1)[0]
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        body = self.stream.read(length)
        if kind == PacketTypes.CONNACK:
            body = body[1:]
        properties = Properties(kind)
        properties.unpack(body[1:])
        method = properties.json().get("AuthenticationMethod")
        data = getattr(properties, "AuthenticationData", b"").decode()
        return kind, body[0], method, data

    def is_closed(self):
        return self.stream.read() == b""


def prove(device, username, secret, begin, is_asked=False):
    """Kind and reason of the packet that ends the exchange, in which the server must have proved itself, too."""
    client = ScramClient([METHOD], username, secret)
    begin(None if is_asked else client.get_client_first())
    if is_asked:
        assert device.receive() == (PacketTypes.AUTH, CONTINUE, METHOD, "")
        device.auth(CONTINUE, client.get_client_first())
    kind, reason, method, data = device.receive()
    if (kind, reason) == (PacketTypes.AUTH, CONTINUE):
        assert method == METHOD
        client.set_server_first(data)
        device.auth(CONTINUE, client.get_client_final())
        kind, reason, method, data = device.receive()
    if reason == 0:
        assert method == METHOD
        client.set_server_final(data)
    else:
        assert data == "" and device.is_closed()
    return kind, reason


def log_in(mqtt, client_id, username, secret, is_asked=False):
    device = Device(mqtt)
    kind, reason = prove(device, username, secret, lambda data: device.connect(client_id, data), is_asked)
    assert kind == PacketTypes.CONNACK
    return device, reason


def main(mqtt, client_id, secret):
    seen = {
        "asked": log_in(mqtt, client_id, client_id, secret, is_asked=True)[1],
        "wrong secret": log_in(mqtt, client_id, client_id, secret + "x")[1],
        "unknown device": log_in(mqtt, client_id + "x", client_id + "x", secret)[1],
        "other user name": log_in(mqtt, client_id, client_id + "x", secret)[1],
    }
    device, seen["right"] = log_in(mqtt, client_id, client_id, secret)

    def again(data):
        device.auth(AGAIN, data)

    seen["again"] = prove(device, client_id, secret, again)
    seen["again, asked"] = prove(device, client_id, secret, again, is_asked=True)
    seen["again, wrong secret"] = prove(device, client_id, secret + "x", again)
    print(json.dumps(seen))


main(**json.loads(sys.argv[1]))
