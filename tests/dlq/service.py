"""A service on a durable that Jetway provisions. What it does with a message says the message, or its argument:
raise, nak, term, ack. It tells what it was given on a subject of its own."""

import asyncio
import json
import sys

import nats


async def handle(message, does):
    if does == "nak":
        await message.nak(delay=0.1)
    elif does == "nak_at_once":
        await message.nak()
    elif does == "term":
        await message.term()
    elif does == "ack":
        await message.ack()
    else:
        raise RuntimeError(does)


async def take(client, durable, always, batch):
    for message in batch:
        about = message.metadata
        told = {
            "subject": message.subject,
            "sequence": about.sequence.stream,
            "delivered": about.num_delivered,
            "headers": dict(message.headers or {}),
            "payload": message.data.decode(),
        }
        await client.publish(f"told.{durable}", json.dumps(told).encode())
        try:
            await handle(message, always or message.data.decode().split()[0])
        except Exception as error:
            print(f"not handled: {error}", file=sys.stderr)
    await client.flush()


async def main():
    arguments = json.loads(sys.argv[1])
    stream, durable, always = arguments["stream"], arguments["durable"], arguments["does"]
    client = await nats.connect(arguments["url"], max_reconnect_attempts=-1, reconnect_time_wait=0.1)
    messages = await client.jetstream().pull_subscribe_bind(durable, stream)
    while True:
        try:
            await take(client, durable, always, await messages.fetch(50, timeout=0.5))
        except Exception as error:  # nothing there, or no server for a while
            print(f"again: {error!r}", file=sys.stderr)
            await asyncio.sleep(0.02)


asyncio.run(main())
