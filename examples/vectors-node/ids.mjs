// Ids that follow from their parts: spend, hold, event hash, UUIDv7.

import { createHash } from "node:crypto";

import { u32 } from "./tree.mjs";
import { Reader } from "./wire.mjs";

const sha256 = (/** @type {(string | Buffer)[]} */ ...parts) => {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest();
};

const prefixed = (/** @type {string | Buffer} */ part) => {
  const data = Buffer.from(part);
  return Buffer.concat([u32(data.length), data]);
};

/** @param {string[]} parts environment, tenant, audience, agent, task id, call id */
export const spendId = (parts) =>
  sha256("licet-spend-v1\0", ...parts.map(prefixed)).subarray(0, 16).toString("hex");

const UNNAMED = new Set([2, 15, 20]); // its id, its end, its trace

/** Of a hold in its one encoding, version 2. @param {Buffer} hold */
export function holdId(hold) {
  const [reader, kept] = [new Reader(hold), /** @type {Buffer[]} */ ([])];
  while (!reader.done) {
    const start = reader.at;
    if (!UNNAMED.has(reader.field().number)) kept.push(hold.subarray(start, reader.at));
  }
  return sha256("licet-hold-v2\0", ...kept).subarray(0, 16).toString("hex");
}

/** Of version 1. @param {string} spend @param {Buffer} callDigest @param {[string, string, number][]} needs @param {string} facts */
export function holdId1(spend, callDigest, needs, facts) {
  const order = (/** @type {any} */ one, /** @type {any} */ other) =>
    Buffer.compare(Buffer.from(one[0]), Buffer.from(other[0])) ||
    Buffer.compare(Buffer.from(one[1]), Buffer.from(other[1])) || one[2] - other[2]; // prettier-ignore
  const parts = [...needs].sort(order).flatMap(([rule, role, quorum]) => [prefixed(rule), prefixed(role), u32(quorum)]);
  const head = [prefixed(spend), prefixed(callDigest), u32(needs.length)];
  return sha256("licet-hold-v1\0", ...head, ...parts, sha256(facts)).subarray(0, 16).toString("hex");
}

/** @param {Buffer} previous @param {Buffer} event */
export const eventHash = (previous, event) => sha256("licet-event-v1\0", previous, event).toString("hex");

/** @param {bigint} now Unix ms @param {Buffer} random 10 bytes */
export function uuid7(now, random) {
  const bits = BigInt(`0x${random.toString("hex")}`);
  const [a, b] = [bits >> 68n, bits & (2n ** 62n - 1n)];
  return ((now << 80n) | (7n << 76n) | (a << 64n) | (2n << 62n) | b).toString(16).padStart(32, "0");
}

/** @param {any} vector @returns {string[]} */
export function checkId(vector) {
  const hex = (/** @type {string} */ text) => Buffer.from(text, "hex");
  /** @type {Record<string, () => string>} */
  const makers = {
    spend: () => spendId(["environment", "tenant", "audience", "agent", "task_id", "call_id"].map((part) => vector[part])),
    hold: () => holdId1(vector.spend_id, hex(vector.call_digest), vector.requirements, vector.facts_json),
    "hold-v2": () => holdId(hex(vector.hold)),
    event: () => eventHash(hex(vector.prev_hash), hex(vector.event)),
    uuid7: () => uuid7(BigInt(vector.now_ms), hex(vector.random)),
  };
  const made = makers[vector.id]?.();
  return made === vector.expected ? [] : [`made ${made}`];
}
