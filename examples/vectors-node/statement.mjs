// Signed statements: the one encoding of a payload, Ed25519 over DSSE's PAE, keys and their roles.

import { createPublicKey, verify as verifySignature } from "node:crypto";

import { isStrong } from "./ed25519.mjs";
import { isPresent, parse } from "./protobuf.mjs";
import { readProtos } from "./protos.mjs";
import { Refused } from "./tree.mjs";

/** @typedef {import("./protobuf.mjs").Message} Message */

export const TYPES = readProtos();
const [BOOL, STRING, MESSAGE, BYTES, ENUM] = [8, 9, 11, 12, 14];
const ROLE_OF_SLOT = /** @type {Record<string, number>} */ ({
  permit: 1, decision: 1, revocations: 1, beacon: 2, bundle: 3, catalog: 4, approval: 5, delegation: 6, task: 7,
  spend: 8, checkpoint: 9,
}); // prettier-ignore
const MAX_KEY_ID_BYTES = 128;
const SPKI_OF_ED25519 = Buffer.from("302a300506032b6570032100", "hex");

/** Parses a payload that must be in its one encoding. @param {string} name @param {Buffer} data @returns {any} */
export function strictParse(name, data) {
  let message;
  try {
    message = parse(TYPES, `licet.v1.${name}`, data);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    throw new Refused(error.reason === "UNKNOWN_FIELD" ? "PERMIT_UNKNOWN_FIELD" : "PERMIT_MALFORMED", name);
  }
  if (!encode(message).equals(data)) throw new Refused("PERMIT_MALFORMED", `${name} in another encoding`);
  return toObject(message);
}

/** @param {bigint} value */
function varint(value) {
  const out = [];
  let left = BigInt.asUintN(64, value);
  for (; left > 0x7fn; left >>= 7n) out.push(Number(left & 0x7fn) | 0x80);
  return Buffer.from([...out, Number(left)]);
}

const tagged = (/** @type {number} */ number, /** @type {Buffer} */ data) =>
  Buffer.concat([varint(BigInt(number) << 3n | 2n), varint(BigInt(data.length)), data]);

/** Protobuf's deterministic encoding. @param {Message} message @returns {Buffer} */
export function encode(message) {
  const out = [];
  for (const [number, value] of [...message.values].sort(([one], [other]) => one - other)) {
    const field = message.type.fields.get(number);
    if (field === undefined || !isPresent(field, value)) continue;
    if (value instanceof Map) {
      const entries = [...value.values()].sort(([one], [other]) => Buffer.compare(one, other));
      const [key, item] = [1, 2].map((part) => /** @type {any} */ (TYPES.messages.get(field.typeName)).fields.get(part));
      for (const entry of entries)
        out.push(tagged(number, Buffer.concat([encodeOne(key, entry[0]), encodeOne(item, entry[1])])));
    } else if (!field.repeated) out.push(encodeOne(field, value));
    else if (field.type === MESSAGE || field.type === STRING || field.type === BYTES)
      for (const item of value) out.push(encodeOne(field, item));
    else out.push(tagged(number, Buffer.concat(value.map((/** @type {any} */ item) => varint(BigInt(item))))));
  }
  return Buffer.concat(out);
}

/** @param {import("./descriptors.mjs").Field} field @param {any} value */
function encodeOne(field, value) {
  if (field.type === MESSAGE) return tagged(field.number, encode(value));
  if (field.type === STRING || field.type === BYTES) return tagged(field.number, value);
  return Buffer.concat([varint(BigInt(field.number) << 3n), varint(BigInt(value))]);
}

/** Fields by name, defaults filled in; null for what is not there. @param {Message} message @returns {any} */
export function toObject(message) {
  const found = /** @type {any} */ ({});
  const plain = (/** @type {any} */ field, /** @type {any} */ value) =>
    field.type === MESSAGE ? toObject(value) : field.type === STRING ? value.toString("utf8") : value;
  for (const field of message.type.fields.values()) {
    const value = message.values.get(field.number);
    if (value instanceof Map) found[field.name] = value;
    else if (field.repeated) found[field.name] = (value ?? []).map((/** @type {any} */ item) => plain(field, item));
    else if (value !== undefined) found[field.name] = plain(field, value);
    else if (field.presence) found[field.name] = null;
    else if (field.type === STRING) found[field.name] = "";
    else if (field.type === BYTES) found[field.name] = Buffer.alloc(0);
    else found[field.name] = field.type === BOOL ? false : field.type === ENUM ? 0 : 0n;
  }
  return found;
}

/** @param {string} slot @param {any} signed @param {Buffer} publicKey */
function signatureFits(slot, signed, publicKey) {
  if (signed.signature.length !== 64) return false;
  const type = Buffer.from(`application/vnd.licet.${slot}.v1+protobuf`);
  const pae = Buffer.concat([
    Buffer.from(`DSSEv1 ${type.length} `), type, Buffer.from(` ${signed.payload.length} `), signed.payload,
  ]); // prettier-ignore
  const key = createPublicKey({ key: Buffer.concat([SPKI_OF_ED25519, publicKey]), format: "der", type: "spki" });
  return verifySignature(null, pae, key, signed.signature);
}

/** @param {any} signed @param {Buffer} root @param {string} environment */
export function readKeyset(signed, root, environment) {
  if (!isStrong(root) || !signatureFits("keyset", signed, root)) throw new Refused("SIGNATURE_INVALID", "key set");
  const set = strictParse("KeySet", signed.payload);
  if (set.environment !== environment) throw new Refused("ENVIRONMENT_MISMATCH", "key set");
  const keys = new Map(set.keys.map((/** @type {any} */ key) => [key.key_id, key]));
  const isBad = (/** @type {any} */ key) =>
    key.role < 1 || key.role > 9 || key.key_id === "" || Buffer.byteLength(key.key_id) > MAX_KEY_ID_BYTES ||
    !isStrong(key.public_key) || key.not_before_ms < 0n || key.not_before_ms >= key.not_after_ms; // prettier-ignore
  if (set.version !== 1n || set.keys.length === 0 || keys.size !== set.keys.length || set.keys.some(isBad))
    throw new Refused("PERMIT_MALFORMED", "key set");
  return { environment, version: set.keyset_version, keys };
}

/** @param {string} slot @param {any} signed @param {any} keyset @param {bigint} now @returns {Buffer} the payload */
export function verify(slot, signed, keyset, now) {
  const key = keyset.keys.get(signed.key_id);
  if (key === undefined) throw new Refused("KEY_UNKNOWN");
  if (ROLE_OF_SLOT[slot] !== key.role) throw new Refused("KEY_ROLE");
  if (key.environment !== keyset.environment || now < key.not_before_ms || now >= key.not_after_ms)
    throw new Refused("KEY_SCOPE");
  if (!signatureFits(slot, signed, key.public_key)) throw new Refused("SIGNATURE_INVALID");
  return signed.payload;
}

export const parseSigned = (/** @type {Buffer} */ raw) => strictParse("Signed", raw);
