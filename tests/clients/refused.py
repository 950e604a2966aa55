"""What paho is told when it asks for what it may not have, or what there is not; printed as JSON."""

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

    def ended(qos, retain):
        device = Device(mqtt, who, version)
        assert device.connect()[0] == 0
        device.client.publish(up, "x", qos, retain)
        return device.closed()

    def will(qos, retain):
        device = Device(mqtt, who, version)
        device.client.will_set(up, "x", qos, retain)
        code, _properties = device.connect()
        device.closed() if code else device.disconnect()
        return code

    seen["wrong password"] = refused(password="00;hmacsha256")
    seen["unknown device"] = refused(client_id=who["client_id"] + "x", username="x" + who["username"])
    seen["no password"] = refused(password=None)
    seen["qos 2"] = ended(2, False)
    seen["retain"] = ended(1, True)
    seen["will with qos 1"] = will(1, False)
    seen["will with qos 2"] = will(2, False)
    seen["will with retain"] = will(1, True)
    print(json.dumps(seen))


main(**json.loads(sys.argv[1]))
