// The checks of one vector of tests/vectors/{statement,keyset,beacon,permit}.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";

import { checkSucceeds, lag, readBeacon, readRevocations } from "./beacon.mjs";
import { examine, readCatalog } from "./door.mjs";
import { encode, parseSigned, readKeyset, verify } from "./statement.mjs";
import { Refused } from "./tree.mjs";

const hex = (/** @type {string} */ text) => Buffer.from(text, "hex");

/** @param {() => any} make @param {any} expected @returns {string[]} */
function compare(make, expected) {
  let found;
  try {
    found = make();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    found = { reason: error.reason };
  }
  return isDeepStrictEqual(found, expected) ? [] : [`found ${JSON.stringify(found)}`];
}

/** @param {string} root the folder of vectors */
export function checks(root) {
  const artifacts = JSON.parse(readFileSync(join(root, "artifacts.json"), "utf8"));
  const artifact = (/** @type {string} */ name) => parseSigned(hex(artifacts[name]));
  const keysOf = (/** @type {any} */ vector) =>
    readKeyset(artifact(vector.keyset), hex(vector.root_public_key), vector.environment);

  return {
    /** @param {any} vector */
    statement: (vector) =>
      compare(() => {
        const slot = /^application\/vnd\.licet\.(\w+)\.v1\+protobuf$/.exec(vector.slot)?.[1] ?? "";
        const payload = verify(slot, parseSigned(hex(vector.signed)), keysOf(vector), BigInt(vector.now_ms));
        return { payload: payload.toString("hex") };
      }, vector.expected),

    /** @param {any} vector */
    keyset: (vector) =>
      compare(() => {
        const { keys } = readKeyset(parseSigned(hex(vector.signed)), hex(vector.root_public_key), vector.environment);
        return { key_ids: [...keys.keys()].sort() };
      }, vector.expected),

    /** @param {any} vector */
    beacon: (vector) =>
      compare(() => {
        const [keys, now] = [keysOf(vector), BigInt(vector.now_ms)];
        const read = (/** @type {string} */ raw) => readBeacon(parseSigned(hex(raw)), keys, vector.environment, now);
        const beacon = read(vector.signed);
        checkSucceeds(vector.previous === null ? null : read(vector.previous), beacon);
        return { age_ms: Number(lag(beacon, now)) };
      }, vector.expected),

    /** @param {any} vector */
    permit: (vector) =>
      compare(() => {
        const found = examine(doorOf(vector.door, keysOf(vector.door), artifact), callOf(vector.call), BigInt(vector.now_ms));
        const { message, ...rest } = found;
        return message === undefined ? rest : { ...rest, forward: encode(message).toString("hex") };
      }, vector.expected),
  };
}

/** @param {any} door @param {any} keys @param {(name: string) => any} artifact */
function doorOf(door, keys, artifact) {
  const [here, received] = [door.environment, BigInt(door.received_at_ms)];
  return {
    environment: here,
    audience: door.audience,
    keys,
    received,
    catalog: readCatalog(artifact(door.catalog), keys, here, received),
    revocations: door.revocations === null ? { seq: 0n, names: new Set() } : readRevocations(artifact(door.revocations), keys, here, received),
    beacon: door.beacon === null ? null : readBeacon(artifact(door.beacon), keys, here, received),
    toolKey: hex(door.tool_key),
    generation: BigInt(door.generation),
    obligations: door.obligations,
  };
}

/** @param {any} call */
function callOf(call) {
  return { ...call, permits: call.permits.map(hex), approvals: call.approvals.map(hex), body: hex(call.body) };
}
