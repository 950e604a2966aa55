"""paho at every listener of a gateway with the open profile, through the flows of flows.mjs; printed as JSON."""

import json
import sys

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from device import Device


def properties_of_publish(**values):
    properties = Properties(PacketTypes.PUBLISH)
    for name, value in values.items():
        setattr(properties, name, value)
    return properties


def flows(connect, is_v5, name):
    """`connect` takes the rest of the client identifier, and what Device takes."""
    seen = {}
    publisher, watcher = connect("publisher"), connect("watcher")

    def take(device, count):
        messages = [device.expect("message")[0] for _ in range(count)]
        return [[m.topic.removeprefix(f"{name}/"), m.payload.decode(), m.qos, m.retain] for m in messages]

    seen["granted"] = watcher.subscribe(f"{name}/qos/+", 2)
    for qos in (0, 1, 2):
        publisher.publish(f"{name}/qos/{qos}", "live", qos=qos)
    seen["qos"] = take(watcher, 3)

    retained = f"{name}/retained"
    publisher.publish(retained, "kept", retain=True)
    watcher.subscribe(retained)
    seen["retained"] = take(watcher, 1)
    publisher.publish(retained, "", retain=True)
    seen["cleared"] = take(watcher, 1)
    watcher.subscribe(retained)
    publisher.publish(retained, "after", qos=2)
    seen["cleared"] += take(watcher, 1)

    sleeper = connect("sleeper", stored=True)
    seen["present"] = [sleeper.session_present]
    sleeper.subscribe(f"{name}/offline", 2)
    sleeper.disconnect()
    for qos in (1, 2):
        publisher.publish(f"{name}/offline", "waits", qos=qos)
    sleeper = connect("sleeper", stored=True)
    seen["present"].append(sleeper.session_present)
    seen["offline"] = take(sleeper, 2)
    sleeper.disconnect()

    watcher.subscribe(f"{name}/will")
    connect("doomed", will=[f"{name}/will", "gone", 1]).cut()
    seen["will"] = take(watcher, 1)

    members = [connect("member1"), connect("member2")]
    for member in members:
        member.subscribe(f"$share/group/{name}/work")
    members[1].events = members[0].events
    for number in range(10):
        publisher.publish(f"{name}/work", str(number))
    seen["shared"] = sorted(payload for _topic, payload, _qos, _retain in take(members[0], 10))
    for member in members:
        member.disconnect()

    first, second = connect("same"), connect("same")
    reason = first.closed()
    seen["takeover"] = reason if is_v5 else None
    seen["taken"] = second.publish(f"{name}/any", "works")
    second.disconnect()

    if is_v5:
        seen |= request_and_response(publisher, watcher, name)
        seen["alias"] = topic_alias(publisher, watcher, name)
    publisher.disconnect()
    watcher.disconnect()
    return seen


def request_and_response(requester, responder, name):
    responder.subscribe(f"{name}/request")
    requester.subscribe(f"{name}/response")
    asked = properties_of_publish(
        ResponseTopic=f"{name}/response",
        CorrelationData=name.encode(),
        UserProperty=[("shift", "night"), ("shift", "late")],
        ContentType="text/plain",
        PayloadFormatIndicator=1,
    )
    requester.publish(f"{name}/request", "why?", asked)
    [request] = responder.expect("message")
    got = request.properties
    answered = properties_of_publish(CorrelationData=got.CorrelationData)
    responder.publish(got.ResponseTopic, "because", answered)
    [response] = requester.expect("message")
    shifts = [value for key, value in got.UserProperty if key == "shift"]
    return {
        "request": [request.payload.decode(), got.ContentType, got.PayloadFormatIndicator, shifts],
        "response": [response.payload.decode(), response.properties.CorrelationData == name.encode()],
    }


def topic_alias(publisher, watcher, name):
    watcher.subscribe(f"{name}/alias")
    sent = [f"{name}/alias", ""]
    for topic in sent:
        publisher.publish(topic, "x", properties_of_publish(TopicAlias=1))
    received = [watcher.expect("message")[0].topic for _ in sent]
    return [[topic.removeprefix(f"{name}/") for topic in topics] for topics in (sent, received)]


def main(listeners, ca, versions):
    seen = {}
    for transport, address in listeners.items():
        host, port = address.rsplit(":", 1)
        for version in versions:
            name = f"paho-{transport}-{version}"

            def connect(rest, will=None, **more):
                device = Device(
                    (host, int(port)),
                    {"client_id": f"{name}-{rest}"},
                    version,
                    transport="websockets" if transport in ("ws", "wss") else "tcp",
                    ca=ca if transport in ("tls", "wss") else None,
                    **more,
                )
                if will:
                    device.client.will_set(*will)
                assert device.connect()[0] == 0
                return device

            seen[f"{transport} {version}"] = flows(connect, version == "5.0", name)
    print(json.dumps(seen))


main(**json.loads(sys.argv[1]))
