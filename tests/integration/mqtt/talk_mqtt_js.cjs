// mqtt.js against a broker: `talk_mqtt_js.cjs ADDRESS VERSION [PART]`. Ends with an error where anything is not as it
// should be. The parts `secured` and `restarted` are those of talk_paho.py.
const fs = require("node:fs");
const assert = require("node:assert");
const mqtt = require("mqtt");

const [address, version] = [process.argv[2], Number(process.argv[3])];
const MILLISECONDS = 10_000;

class Client {
  static async make(clientId, options = {}) {
    const made = new Client();
    made.waiting = [];
    made.messages = [];
    made.client = await mqtt.connectAsync(address, { clientId, protocolVersion: version, reconnectPeriod: 0, ...options });
    made.client.on("message", (topic, payload, packet) => {
      const message = { topic, payload: payload.toString(), qos: packet.qos, retain: packet.retain, given: packet.properties };
      if (made.waiting.length) made.waiting.shift()(message);
      else made.messages.push(message);
    });
    return made;
  }

  next() {
    if (this.messages.length) return Promise.resolve(this.messages.shift());
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error("no message came")), MILLISECONDS);
      this.waiting.push((message) => {
        clearTimeout(timer);
        resolve(message);
      });
    });
  }

  async gets(topic, payload, qos, retain = false) {
    const message = await this.next();
    assert.deepStrictEqual([message.topic, message.payload, message.qos, message.retain], [topic, payload, qos, retain]);
    return message;
  }
}

async function qualities() {
  const [one, two] = [await Client.make("one"), await Client.make("two")];
  for (const granted of [0, 1, 2]) {
    await two.client.subscribeAsync(`q/${granted}`, { qos: granted });
    for (const published of [0, 1, 2]) {
      await one.client.publishAsync(`q/${granted}`, "x", { qos: published });
      await two.gets(`q/${granted}`, "x", Math.min(published, granted));
    }
  }
  return [one, two];
}

async function retained() {
  const [one, two] = [await Client.make("one"), await Client.make("two")];
  await one.client.publishAsync("r/a", "1", { qos: 1, retain: true });
  await two.client.subscribeAsync("r/#", { qos: 1 });
  await two.gets("r/a", "1", 1, true);
  await one.client.publishAsync("r/a", "", { qos: 1, retain: true });
  return [one, two];
}

async function wills() {
  const watcher = await Client.make("watcher");
  await watcher.client.subscribeAsync("will");
  const dying = await Client.make("dying", { will: { topic: "will", payload: "bye", qos: 0, retain: false } });
  dying.client.on("error", () => {});
  dying.client.stream.destroy(); // as a broken network does
  await watcher.gets("will", "bye", 0);
  return [watcher];
}

async function takingOver() {
  const older = await Client.make("same");
  const closed = new Promise((resolve) => older.client.once("close", resolve));
  const newer = await Client.make("same");
  await closed;
  return [newer];
}

async function largeMessages() {
  const client = await Client.make("large");
  await client.client.subscribeAsync("large/+");
  for (const size of [125, 126, 65_535, 65_536, 500_000]) {
    await client.client.publishAsync("large/x", "x".repeat(size));
    assert.strictEqual((await client.next()).payload.length, size);
  }
  return [client];
}

async function version5() {
  const two = await Client.make("two");
  const one = await Client.make("one", { properties: { userProperties: { Kind: "so2" } } });
  await two.client.subscribeAsync("v/#", { qos: 1, properties: { subscriptionIdentifier: 7 } });
  const properties = { topicAlias: 3, contentType: "text/plain", responseTopic: "v/answer", correlationData: Buffer.from([0, 255]), userProperties: { b: "1" } };
  await one.client.publishAsync("v/a", "first", { qos: 1, properties });
  const { given } = await two.gets("v/a", "first", 1);
  assert.strictEqual(given.userProperties.b, "1");
  assert.strictEqual(given.responseTopic, "v/answer");
  assert.strictEqual(given.contentType, "text/plain");
  assert.deepStrictEqual(given.correlationData, Buffer.from([0, 255]));
  assert.strictEqual(given.subscriptionIdentifier, 7);
  await one.client.publishAsync("", "second", { properties: { topicAlias: 3 } });
  await two.gets("v/a", "second", 0);
  return [one, two];
}

async function groups() {
  const [one, two, three] = [await Client.make("one"), await Client.make("two"), await Client.make("three")];
  for (const member of [two, three]) await member.client.subscribeAsync("$share/js/js-s/#", { qos: 1 });
  for (let number = 0; number < 20; number++) await one.client.publishAsync("js-s/a", `${number}`, { qos: 1 });
  const numbers = [];
  for (const member of [two, three]) for (let count = 0; count < 10; count++) numbers.push(Number((await member.next()).payload));
  assert.deepStrictEqual(numbers.sort((a, b) => a - b), [...Array(20).keys()]);
  return [one, two, three];
}

async function requestAndResponse() {
  const [one, two] = [await Client.make("one"), await Client.make("two")];
  await two.client.subscribeAsync("js-ask", { qos: 1 });
  await one.client.subscribeAsync("js-answer", { qos: 1 });
  await one.client.publishAsync("js-ask", "?", { qos: 1, properties: { responseTopic: "js-answer", correlationData: Buffer.from("7") } });
  const { given } = await two.gets("js-ask", "?", 1);
  await two.client.publishAsync(given.responseTopic, "21.5", { qos: 1, properties: { correlationData: given.correlationData } });
  const answer = await one.gets("js-answer", "21.5", 1);
  assert.deepStrictEqual(answer.given.correlationData, Buffer.from("7"));
  return [one, two];
}

async function secured() {
  const files = JSON.parse(process.env.MQTT_FILES);
  const [ca, cert, key] = [files.authority, files.certificate, files.key].map((file) => fs.readFileSync(file));
  const options = { ca, cert, key, username: "ann" };
  await assert.rejects(Client.make("js-wrong", { ...options, password: "wrong" }));
  const right = await Client.make(`js-right-${version}`, { ...options, password: files.password });
  await assert.rejects(right.client.subscribeAsync("elsewhere/#", { qos: 1 }));
  const denied = right.client.publishAsync("elsewhere/js", "dropped", { qos: 1 });
  await (version === 5 ? assert.rejects(denied, { code: 0x87 }) : denied);
  await right.client.subscribeAsync(`allowed/js/${version}`, { qos: 1 });
  await right.client.publishAsync(`allowed/js/${version}`, "x", { qos: 1 });
  await right.gets(`allowed/js/${version}`, "x", 1);
  return [right];
}

async function restarted() {
  const again = await Client.make(`js-again-${version}`, { reconnectPeriod: 200 });
  again.client.on("error", () => {});
  await again.client.subscribeAsync(`again/js/${version}`, { qos: 1 });
  const back = new Promise((resolve) => again.client.once("connect", resolve));
  console.log("ready");
  await back;
  await again.client.subscribeAsync(`again/js/${version}`, { qos: 1 });
  await again.client.publishAsync(`again/js/${version}`, "x", { qos: 1 });
  await again.gets(`again/js/${version}`, "x", 1);
  return [again];
}

(async () => {
  const usual = { qualities, retained, wills, groups, takingOver, largeMessages, ...(version === 5 ? { version5, requestAndResponse } : {}) };
  const parts = process.argv[4] ? { [process.argv[4]]: { secured, restarted }[process.argv[4]] } : usual;
  for (const [name, part] of Object.entries(parts)) {
    for (const client of await part()) await client.client.endAsync();
    console.log(name);
  }
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
