// Tool key and call digest, and the check of one vector of tests/vectors/{digest,json}.

import { createHash, createHmac, hkdfSync } from "node:crypto";

import { readDescriptors } from "./descriptors.mjs";
import { walk } from "./protobuf.mjs";
import { readJson } from "./strict-json.mjs";
import { Refused, u32 } from "./tree.mjs";

/** @param {Buffer} master @param {string} audience @param {number} generation */
export function toolKey(master, audience, generation) {
  const name = Buffer.from(audience, "utf8");
  const info = Buffer.concat([u32(name.length), name, Buffer.alloc(8)]);
  info.writeBigUInt64BE(BigInt(generation), info.length - 8);
  return Buffer.from(hkdfSync("sha256", master, "licet-tool-key-v1", info, 32));
}

/** @param {Buffer} key @param {number} codec @param {string} method @param {Buffer} methodDigest @param {Buffer} tree */
export function callDigest(key, codec, method, methodDigest, tree) {
  const mac = createHmac("sha256", key).update("licet-call-v1\0").update(u32(codec));
  for (const part of [Buffer.from(method, "utf8"), methodDigest, tree]) mac.update(u32(part.length)).update(part);
  return mac.digest();
}

const hex = (/** @type {string} */ text) => Buffer.from(text, "hex");

/** @param {any} vector @param {Buffer} request */
function read(vector, request) {
  if (vector.codec === 2) return readJson(vector.schema, request);
  const types = readDescriptors(Buffer.from(vector.descriptors, "base64"));
  const { tree } = walk(types, vector.input_type, vector.any_types, request);
  return { tree, canonical: undefined };
}

/** Returns what is wrong, or nothing. @param {any} vector @returns {string[]} */
export function checkCall(vector) {
  const request = Buffer.concat(
    vector.request.flatMap((/** @type {any} */ part) => Array(part.times).fill(hex(part.hex))),
  );
  const { expected } = vector;
  let found;
  try {
    found = read(vector, request);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return error.reason === expected.reason ? [] : [`refused with ${error.message}`];
  }
  if (expected.reason !== undefined) return [`read, though ${expected.reason} was expected`];
  const key = toolKey(hex(vector.master), vector.audience, vector.generation);
  const digest = callDigest(key, vector.codec, vector.method, hex(vector.method_digest), found.tree);
  const sha256 = createHash("sha256").update(found.tree).digest("hex");
  const problems = [];
  if (key.toString("hex") !== vector.k_tool) problems.push("another tool key");
  if (sha256 !== expected.tree_sha256) problems.push(`another tree: ${found.tree.toString("hex").slice(0, 400)}`);
  if (digest.toString("hex") !== expected.call_digest) problems.push("another call digest");
  if (expected.canonical === undefined) return problems;
  if (found.canonical !== undefined && found.canonical.toString("hex") !== expected.canonical)
    problems.push(`other canonical bytes: ${found.canonical.toString("hex")}`);
  if (!read(vector, hex(expected.canonical)).tree.equals(found.tree)) problems.push("canonical bytes of another tree");
  return problems;
}
