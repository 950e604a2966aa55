"""A device on Eclipse paho: each callback becomes an event, and a script waits for the one it expects next."""

import functools
import os
import queue
import socket

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

DEADLINE_S = 30
CALLBACKS = ("connect", "disconnect", "publish", "subscribe", "message")


class Device:
    def __init__(self, address, who, version, transport="tcp", ca=None, stored=False):
        """`ca` makes it TLS; a `stored` session is kept for a while, and found again by the next one."""
        self.address = address
        self.events = queue.Queue()
        self.session_present = None
        is_v5 = version == "5.0"
        self.client = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            client_id=who["client_id"],
            clean_session=None if is_v5 else not stored,
            protocol=mqtt.MQTTv5 if is_v5 else mqtt.MQTTv311,
            transport=transport,
            reconnect_on_failure=False,
        )
        self.session = {}
        if is_v5 and stored:
            self.session = {"clean_start": False, "properties": Properties(PacketTypes.CONNECT)}
            self.session["properties"].SessionExpiryInterval = 600
        if ca:
            self.client.tls_set(ca_certs=ca)
        if "username" in who:
            self.client.username_pw_set(who["username"], who["password"])
        for name in CALLBACKS:
            setattr(self.client, f"on_{name}", functools.partial(self.note, name))

    def note(self, name, client, userdata, *rest):
        self.events.put((name, rest))

    def expect(self, name):
        """The arguments of the next callback, which must be this one."""
        found, rest = self.events.get(timeout=DEADLINE_S)
        assert found == name, f"expected {name}, found {found} {rest}"
        return rest

    def connect(self):
        """Reason code and properties of CONNACK."""
        self.client.connect(*self.address, **self.session)
        self.client.loop_start()
        flags, reason, properties = self.expect("connect")
        self.session_present = flags.session_present
        return reason.value, properties.json() if properties else {}

    def publish(self, topic, payload, properties=None, qos=1, retain=False):
        """The reason code of PUBACK, or of QoS 2's last answer; for QoS 0 paho makes one up."""
        self.client.publish(topic, payload, qos, retain, properties=properties)
        _id, reason, _properties = self.expect("publish")
        return reason.value

    def subscribe(self, topic, qos=1):
        """The reason code of SUBACK."""
        self.client.subscribe(topic, qos)
        _id, [reason], _properties = self.expect("subscribe")
        return reason.value

    def closed(self):
        """The reason code of the DISCONNECT that ended the connection."""
        _flags, reason, _properties = self.expect("disconnect")
        self.client.loop_stop()
        return reason.value

    def disconnect(self):
        self.client.disconnect()
        return self.closed()

    def cut(self):
        """The connection ends without DISCONNECT."""
        # A second descriptor, since neither TLS nor WebSocket is to say goodbye.
        with socket.socket(fileno=os.dup(self.client.socket().fileno())) as connection:
            connection.shutdown(socket.SHUT_RDWR)
        return self.closed()
