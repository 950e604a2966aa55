import asyncio
import os

import nats


async def main():
    service = await nats.connect(os.environ.get("NATS_URL", "nats://127.0.0.1:4222"))
    jetstream = service.jetstream()
    # A durable consumer: reports wait for this service while it is away, until it acknowledges them.
    reports = await jetstream.pull_subscribe("device.up.mqtt.thing.>", durable="reports", stream="DEVICE_UP")
    while True:
        try:
            batch = await reports.fetch(100, timeout=60)
        except nats.errors.TimeoutError:
            continue
        for report in batch:
            print(report.subject, report.headers["Jw-Type"], report.data.decode(), flush=True)
            # A command back to the same device. The PubAck means that it is stored.
            device = report.subject.removeprefix("device.up.mqtt.thing.")
            command = b'{"method":"control","msgToken":"1","params":{"power":1}}'
            await jetstream.publish(f"device.down.thing.{device}", command)
            await report.ack()


asyncio.run(main())
