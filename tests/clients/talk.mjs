// A device on MQTT.js. The first time it subscribes and reports; each time it takes `count` messages, and its connection
// is cut. What it saw is printed as JSON.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

import { Connection } from "./flows.mjs";

const mqtt = createRequire(import.meta.url)("mqtt");

const { url, ca, version, who, count } = JSON.parse(process.argv[2]);
const isV5 = version === "5.0";
const path = `${who.product}/${who.name}`;
const up = `$thing/up/property/${path}`;
const device = await Connection.open(mqtt, url, {
  ca: readFileSync(ca),
  protocolVersion: isV5 ? 5 : 4,
  clientId: who.client_id,
  username: who.username,
  password: who.password,
  clean: false,
  ...(isV5 && { properties: { sessionExpiryInterval: 600 } }),
  will: { topic: up, payload: "gone", qos: 1, retain: false },
});
const seen = { present: device.sessionPresent };
if (!device.sessionPresent) {
  seen.suback = await device.subscribe(`$thing/down/+/${path}`, 2);
  const properties = isV5 ? { contentType: "text/plain", userProperties: { shift: "night" } } : undefined;
  for (const qos of [0, 1, 2]) await device.publish(up, `${qos}`, { qos, properties });
  seen.other = [];
  for (const qos of [1, 2]) seen.other.push(await device.publish(`${up}x`, "other", { qos }));
}
seen.down = (await device.inbox.take(count)).map((packet) => [
  packet.topic,
  packet.payload.toString(),
  packet.qos,
  packet.properties?.userProperties?.shift ?? null,
]);
await device.cut();
console.log(JSON.stringify(seen));
