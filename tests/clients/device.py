"""A device on Eclipse paho: each callback becomes an event, and a script waits for the one it expects next."""

import functools
import queue

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

DEADLINE_S = 30
CALLBACKS = ("connect", "disconnect", "publish", "subscribe", "message")


class Device:
    def __init__(self, address, who, version):
        self.address = address
        self.events = queue.Queue()
        self.client = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            client_id=who["client_id"],
            protocol={"3.1.1": mqtt.MQTTv311, "5.0": mqtt.MQTTv5}[version],
            reconnect_on_failure=False,
        )
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
        self.client.connect(*self.address)
        self.client.loop_start()
        _flags, reason, properties = self.expect("connect")
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
