"""A device on paho and a service on nats-py talk; what each of them saw is printed as JSON."""

import asyncio
import json
import sys

import nats
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from device import DEADLINE_S, Device


def user_properties(version):
    if version != "5.0":
        return None
    properties = Properties(PacketTypes.PUBLISH)
    properties.ContentType = "application/json"
    properties.UserProperty = [("b", "1"), ("a", "2"), ("b", "3")]
    return properties


def show(message):
    return {
        "subject": message.subject,
        "payload": message.data.decode(),
        "headers": {name: value for name, value in (message.headers or {}).items() if name != "Jw-Ts"},
    }


async def main(mqtt, nats_url, version, who):
    name = f"{who['product']}.{who['name']}"
    path = f"{who['product']}/{who['name']}"
    seen = {}

    service = await nats.connect(nats_url)
    stream = service.jetstream()
    live = await service.subscribe(f"device.up.thing.{name}")
    durable = await stream.pull_subscribe(f"device.up.*.*.{name}", durable=f"talk-{version[0]}", stream="DEVICE_UP")
    await service.flush()

    up = f"$thing/up/property/{path}"
    device = Device(mqtt, who, version, stored=True)
    device.client.will_set(up, "gone", qos=2)
    seen["connack"] = device.connect()
    seen["suback"] = device.subscribe(f"$thing/down/+/{path}", qos=2)
    seen["suback_other"] = device.subscribe(f"$thing/down/+/{path}x")
    device.publish(up, "zero", qos=0)
    seen["puback"] = device.publish(up, "one", user_properties(version))
    seen["pubcomp"] = device.publish(up, "two", qos=2)
    seen["puback_other"] = device.publish(f"{up}x", "other")

    seen["live"] = [show(await live.next_msg(timeout=DEADLINE_S)) for _ in range(3)]
    stored = await durable.fetch(3, timeout=DEADLINE_S)
    for message in stored:
        await message.ack_sync()
    seen["stored"] = [show(message) for message in stored]
    seen["unread"] = (await durable.consumer_info()).num_pending

    headers = {"Jw-Type": "action", "Jw-Qos": "2", "Content-Type": "text/plain", "Jw-User-shift": "night"}
    acked = await stream.publish(f"device.down.thing.{name}", b"down", headers=headers)
    seen["puback_down"] = [acked.stream, acked.seq > 0]
    [down] = await asyncio.to_thread(device.expect, "message")
    seen["down"] = [down.topic, down.payload.decode(), down.qos, down.retain]
    seen["down_properties"] = down.properties.json() if down.properties else {}

    device.cut()
    [will] = await durable.fetch(1, timeout=DEADLINE_S)
    seen["will"] = [will.data.decode(), will.headers["Jw-Qos"]]
    await stream.publish(f"device.down.thing.{name}", b"meanwhile", headers={"Jw-Qos": "1"})
    device = Device(mqtt, who, version, stored=True)
    assert device.connect()[0] == 0
    [down] = await asyncio.to_thread(device.expect, "message")
    seen["resumed"] = [device.session_present, down.payload.decode(), down.qos]

    seen["disconnect"] = device.disconnect()
    await service.close()
    print(json.dumps(seen))


asyncio.run(main(**json.loads(sys.argv[1])))
