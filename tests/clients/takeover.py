"""Two paho clients with one client id: what the first one is told, and that the second one works; printed as JSON."""

import json
import sys

from device import Device


def main(mqtt, version, who):
    seen = {}
    first, second = Device(mqtt, who, version), Device(mqtt, who, version)
    seen["first"] = first.connect()[0]
    seen["second"] = second.connect()[0]
    seen["first closed"] = first.closed()
    topic = f"$thing/up/property/{who['product']}/{who['name']}"
    seen["second puback"] = second.publish(topic, "x")
    seen["second disconnect"] = second.disconnect()
    print(json.dumps(seen))


main(**json.loads(sys.argv[1]))
