// What any client of the open profile may want, done by MQTT.js, in Node.js and in a browser alike: no imports here.
// `flows` returns what was seen; what should have been is in open.rs.

const DEADLINE_MS = 30_000;

function within(what, promise) {
  const late = new Promise((_resolve, reject) =>
    setTimeout(() => reject(new Error(`waited in vain for ${what}`)), DEADLINE_MS).unref?.(),
  );
  return Promise.race([promise, late]);
}

/** PUBLISH packets, in the order in which they came. */
class Inbox {
  packets = [];
  arrived = () => {};

  put(packet) {
    this.packets.push(packet);
    this.arrived();
  }

  async next() {
    while (this.packets.length === 0) {
      await within("PUBLISH", new Promise((resolve) => (this.arrived = resolve)));
    }
    return this.packets.shift();
  }

  async take(count) {
    const packets = [];
    while (packets.length < count) packets.push(await this.next());
    return packets;
  }
}

/** A connection that is never made anew behind the test's back. */
export class Connection {
  /** Resolves once CONNACK accepts. Connections may share an inbox. */
  static async open(mqtt, url, options, inbox = new Inbox()) {
    const connection = new Connection();
    connection.inbox = inbox;
    connection.client = mqtt.connect(url, { reconnectPeriod: 0, ...options });
    const { client } = connection;
    // The packet's own topic is empty where an alias stands for it.
    client.on("message", (topic, _payload, packet) => inbox.put({ ...packet, topic }));
    let reason = null;
    client.on("disconnect", (packet) => (reason = packet.reasonCode));
    connection.closed = new Promise((resolve) => client.on("close", () => resolve(reason)));
    const connack = new Promise((resolve, reject) => client.on("connect", resolve).on("error", reject));
    connection.sessionPresent = (await within("CONNACK", connack)).sessionPresent;
    return connection;
  }

  /** The granted QoS. */
  async subscribe(filter, qos) {
    const [granted] = await within("SUBACK", this.client.subscribeAsync(filter, { qos }));
    return granted.qos;
  }

  /** The reason code of the last answer. */
  async publish(topic, payload, options) {
    try {
      await within("the acknowledgement", this.client.publishAsync(topic, payload, options));
      return 0;
    } catch (refused) {
      if (refused.code === undefined) throw refused;
      return refused.code;
    }
  }

  /** The connection ends without DISCONNECT. */
  async cut() {
    this.client.stream.destroy();
    await within("the end", this.closed);
  }

  async close() {
    await within("the end", this.client.endAsync());
  }
}

export async function flows(mqtt, url, version, name, secure) {
  const isV5 = version === "5.0";
  const show = ({ topic, payload, qos, retain }) => [topic.replace(`${name}/`, ""), payload.toString(), qos, retain];
  const connect = (id, options, inbox) =>
    Connection.open(mqtt, url, { ...secure, protocolVersion: isV5 ? 5 : 4, clientId: `${name}-${id}`, ...options }, inbox);
  const seen = {};

  const publisher = await connect("publisher");
  // What comes to it may name its topic by an alias, which MQTT.js resolves.
  const watcher = await connect("watcher", isV5 ? { properties: { topicAliasMaximum: 8 } } : {});
  const next = async (count) => (await watcher.inbox.take(count)).map(show);

  seen.granted = await watcher.subscribe(`${name}/qos/+`, 2);
  for (const qos of [0, 1, 2]) await publisher.publish(`${name}/qos/${qos}`, "live", { qos });
  seen.qos = await next(3);

  const retained = `${name}/retained`;
  await publisher.publish(retained, "kept", { qos: 1, retain: true });
  await watcher.subscribe(retained, 1);
  seen.retained = await next(1);
  await publisher.publish(retained, "", { qos: 1, retain: true });
  await watcher.subscribe(retained, 1);
  await publisher.publish(retained, "after", { qos: 2 });
  seen.cleared = await next(2);

  const stored = { clean: false, ...(isV5 && { properties: { sessionExpiryInterval: 600 } }) };
  let sleeper = await connect("sleeper", stored);
  seen.present = [sleeper.sessionPresent];
  await sleeper.subscribe(`${name}/offline`, 2);
  await sleeper.close();
  for (const qos of [1, 2]) await publisher.publish(`${name}/offline`, "waits", { qos });
  sleeper = await connect("sleeper", stored);
  seen.present.push(sleeper.sessionPresent);
  seen.offline = (await sleeper.inbox.take(2)).map(show);
  await sleeper.close();

  await watcher.subscribe(`${name}/will`, 1);
  const doomed = await connect("doomed", { will: { topic: `${name}/will`, payload: "gone", qos: 1, retain: false } });
  await doomed.cut();
  seen.will = await next(1);

  const shared = new Inbox();
  const members = [await connect("member1", {}, shared), await connect("member2", {}, shared)];
  for (const member of members) await member.subscribe(`$share/group/${name}/work`, 1);
  for (let number = 0; number < 10; number++) await publisher.publish(`${name}/work`, `${number}`, { qos: 1 });
  seen.shared = (await shared.take(10)).map((packet) => packet.payload.toString()).sort();
  for (const member of members) await member.close();

  const [first, second] = [await connect("same"), await connect("same")];
  seen.takeover = await within("the takeover", first.closed);
  seen.taken = await second.publish(`${name}/any`, "works", { qos: 1 });
  await second.close();

  if (isV5) {
    Object.assign(seen, await requestAndResponse(publisher, watcher, name));
    seen.alias = await topicAlias(await connect("alias", { autoAssignTopicAlias: true }), watcher, name);
  }
  await publisher.close();
  await watcher.close();
  return seen;
}

async function requestAndResponse(requester, responder, name) {
  await responder.subscribe(`${name}/request`, 1);
  await requester.subscribe(`${name}/response`, 1);
  const properties = {
    responseTopic: `${name}/response`,
    correlationData: requester.client.options.clientId,
    userProperties: { shift: ["night", "late"] },
    contentType: "text/plain",
    payloadFormatIndicator: true,
  };
  await requester.publish(`${name}/request`, "why?", { qos: 1, properties });
  const request = await responder.inbox.next();
  const { responseTopic, correlationData, userProperties, contentType, payloadFormatIndicator } = request.properties;
  await responder.publish(responseTopic, "because", { qos: 1, properties: { correlationData } });
  const response = await requester.inbox.next();
  const correlated = response.properties.correlationData.toString() === properties.correlationData;
  return {
    request: [request.payload.toString(), contentType, Number(payloadFormatIndicator), userProperties.shift],
    response: [response.payload.toString(), correlated],
  };
}

/** The topics as they were sent, and as they were received. */
async function topicAlias(connection, watcher, name) {
  const sent = [];
  connection.client.on("packetsend", ({ cmd, topic }) => cmd === "publish" && sent.push(topic.replace(`${name}/`, "")));
  await watcher.subscribe(`${name}/alias`, 1);
  for (const payload of ["1", "2"]) await connection.publish(`${name}/alias`, payload, { qos: 1 });
  const received = (await watcher.inbox.take(2)).map(({ topic }) => topic.replace(`${name}/`, ""));
  await connection.close();
  return [sent, received];
}
