"""What paho is told when it asks for what it may have, and what it may not; printed as JSON."""

import json
import sys

from device import Device


def main(mqtt, version, who):
    seen = {}
    path = f"{who['product']}/{who['name']}"
    up = f"$thing/up/property/{path}"

    def refused(**change):
        device = Device(mqtt, who | change, version)
        code, _properties = device.connect()
        device.closed()
        return code

    def published(topic, qos, retain):
        device = Device(mqtt, who, version)
        assert device.connect()[0] == 0
        code = device.publish(topic, "x", qos=qos, retain=retain)
        device.disconnect()
        return code

    def will(qos, retain):
        device = Device(mqtt, who, version)
        device.client.will_set(up, "x", qos, retain)
        code, _properties = device.connect()
        device.closed() if code else device.disconnect()
        return code

    seen["wrong password"] = refused(password="00;hmacsha256")
    seen["unknown device"] = refused(client_id=who["client_id"] + "x", username="x" + who["username"])
    seen["no password"] = refused(password=None)
    seen["qos 2"] = published(up, 2, False)
    seen["qos 2 for another device"] = published(f"{up}x", 2, False)
    seen["retain"] = published(up, 1, True)
    seen["will with qos 1"] = will(1, False)
    seen["will with qos 2"] = will(2, False)
    seen["will with retain"] = will(1, True)
    print(json.dumps(seen))


main(**json.loads(sys.argv[1]))
