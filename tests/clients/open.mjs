// MQTT.js in Node.js at every listener of a gateway with the open profile; what it saw is printed as JSON.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

import { flows } from "./flows.mjs";

// NODE_PATH counts for `require` alone.
const mqtt = createRequire(import.meta.url)("mqtt");
const SCHEMES = { tcp: "mqtt", tls: "mqtts", ws: "ws", wss: "wss" };

const { listeners, ca, versions } = JSON.parse(process.argv[2]);
const seen = {};
for (const [transport, address] of Object.entries(listeners)) {
  const url = `${SCHEMES[transport]}://${address}`;
  for (const version of versions) {
    const name = `node-${transport}-${version}`;
    seen[`${transport} ${version}`] = await flows(mqtt, url, version, name, { ca: readFileSync(ca) });
  }
}
console.log(JSON.stringify(seen));
