// The checks at the door, 2 to 11, in the protocol's order; what they refuse carries the number of the check.

import { createHash } from "node:crypto";

import { checkApprovals } from "./approvals.mjs";
import { checkRevoked, lag, MAX_AGE_MS, MAX_SKEW_MS } from "./beacon.mjs";
import { callDigest } from "./call.mjs";
import { checkCeilings, valuesOf } from "./ceilings.mjs";
import { readDescriptors } from "./descriptors.mjs";
import { spendId } from "./ids.mjs";
import { walk } from "./protobuf.mjs";
import { checkRules } from "./rules.mjs";
import { parseSigned, strictParse, verify } from "./statement.mjs";
import { Refused } from "./tree.mjs";

const MAX_PERMIT_BYTES = 4096;
const MAX_LIFE_MS = /** @type {Record<number, bigint>} */ ({ 1: 300_000n, 2: 60_000n, 3: 60_000n });
const [ALLOW, MODIFY] = [1, 4];
const [READ, WRITE, PRIVILEGED] = [1, 2, 3];
const IDENTIFIER = /^[\x20-\x7e]{1,128}$/;
const HEX32 = /^[0-9a-f]{32}$/;
const CONTROLS = /[\0\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/;

/** @param {any} signed @param {any} keys @param {string} environment @param {bigint} now */
export function readCatalog(signed, keys, environment, now) {
  const catalog = strictParse("Catalog", verify("catalog", signed, keys, now));
  if (catalog.environment !== environment) throw new Error("a catalog of another environment");
  const versions = (/** @type {any} */ entry) => [entry.current, entry.next].filter((raw) => raw.length > 0).map(readMethod);
  return new Map(catalog.entries.map((/** @type {any} */ entry) => [entry.path, versions(entry)]));
}

/** @param {Buffer} raw */
function readMethod(raw) {
  const method = strictParse("Method", raw);
  const tier = Number(method.tier);
  const callClass = tier <= 1 ? READ : tier === 5 ? PRIVILEGED : WRITE;
  const digest = createHash("sha256").update(raw).digest();
  return { ...method, callClass, digest, spends: method.spends || callClass !== READ };
}

/** @param {any} door @param {any} call @param {bigint} now @returns {any} what the vectors expect of a call that may go on */
export function examine(door, call, now) {
  let step = 2;
  const at = (/** @type {number} */ number) => (step = number);
  try {
    return check(door, call, now, at);
  } catch (error) {
    if (error instanceof Refused) return { reason: error.reason, step };
    throw error;
  }
}

/** @param {any} door @param {any} call @param {bigint} now @param {(step: number) => void} at */
function check(door, call, now, at) {
  const versions = door.catalog.get(call.path);
  if (versions === undefined) throw new Refused("METHOD_UNKNOWN");
  if (versions.some((/** @type {any} */ one) => one.client_streaming)) throw new Refused("CLIENT_STREAMING");
  at(3);
  if (call.permits.length === 0) throw new Refused("NO_PERMIT");
  if (call.permits.length > 1) throw new Refused("PERMIT_AMBIGUOUS");
  if (call.permits[0].length > MAX_PERMIT_BYTES) throw new Refused("TOO_LARGE");
  const signed = parseSigned(call.permits[0]);
  at(4);
  const payload = verify("permit", signed, door.keys, now);
  at(5);
  const decision = readDecision(payload);
  at(6);
  const method = checkScope(decision, door, call, versions);
  at(7);
  if (!isSpiffeId(call.peer)) throw new Refused("CALLER_UNKNOWN");
  if (decision.caller !== call.peer) throw new Refused("CALLER_MISMATCH");
  at(8);
  if (decision.issued_at_ms > now + MAX_SKEW_MS) throw new Refused("NOT_YET_VALID");
  if (now >= decision.not_after_ms) throw new Refused("EXPIRED");
  const life = decision.not_after_ms - decision.issued_at_ms;
  if (life <= 0n || life > MAX_LIFE_MS[method.callClass]) throw new Refused("LIFE_TOO_LONG");
  at(9);
  checkBeacon(decision, door, method, now);
  checkRevoked(door.revocations, decision, signed.key_id);
  at(10);
  const { digest, message } = checkArguments(decision, door, method, call.body);
  at(11);
  const known = [...door.obligations, ...method.obligations];
  if (decision.obligations.some((/** @type {any} */ { id }) => !known.includes(id))) throw new Refused("OBLIGATION_UNKNOWN");
  const approvers = checkPrivileged(decision, door, method, call, now);
  return { call_digest: digest.toString("hex"), spend_id: decision.spend_id, spends: method.spends || decision.spends, approvers, message };
}

const malformed = (/** @type {string} */ what) => new Refused("PERMIT_MALFORMED", what);

/** @param {Buffer} payload */
function readDecision(payload) {
  const decision = strictParse("Decision", payload);
  if (decision.version !== 1n) throw malformed("version");
  if (decision.decision !== ALLOW && decision.decision !== MODIFY) throw new Refused("DECISION_INVALID");
  const isSet = (/** @type {any} */ scalar) => scalar !== null && Object.values(scalar).some((part) => part !== null);
  const digestLength = decision.ceilings.length > 0 ? 0 : 32;
  if (decision.call_digest.length !== digestLength) throw malformed("not exactly one of digest and ceilings");
  if (decision.method_digest.length !== 32) throw malformed("method digest");
  if (decision.original_call_digest.length !== (decision.decision === MODIFY ? 32 : 0)) throw malformed("original digest");
  if (decision.class < READ || decision.class > PRIVILEGED) throw malformed("class");
  if (decision.ceilings.some((/** @type {any} */ { op }) => op < 1 || op > 8)) throw malformed("operator");
  if (decision.obligations.some((/** @type {any} */ { id }) => id === "")) throw malformed("obligation");
  if (decision.preconditions.some((/** @type {any} */ one) => one.check === "" || !isSet(one.expect))) throw malformed("precondition");
  if (!HEX32.test(decision.decision_id)) throw malformed("decision id");
  if (!IDENTIFIER.test(decision.call_id) || !IDENTIFIER.test(decision.task_id)) throw malformed("call id or task id");
  if (decision.hold_id !== "" && !HEX32.test(decision.hold_id)) throw malformed("hold id");
  const step = ["environment", "tenant", "audience", "agent", "task_id", "call_id"].map((part) => decision[part]);
  if (decision.spend_id !== spendId(step)) throw malformed("spend id");
  return decision;
}

/** @param {any} decision @param {any} door @param {any} call @param {any[]} versions */
function checkScope(decision, door, call, versions) {
  if (decision.environment !== door.environment) throw new Refused("ENVIRONMENT_MISMATCH");
  if (decision.audience !== door.audience) throw new Refused("AUDIENCE_MISMATCH");
  if (decision.method !== call.path) throw new Refused("METHOD_MISMATCH");
  const method = versions.find(({ digest }) => digest.equals(decision.method_digest));
  if (method === undefined) throw new Refused("METHOD_SUPERSEDED");
  if (decision.class !== method.callClass) throw malformed("another class than the catalog's");
  if (method.spends && !decision.spends) throw malformed("must spend");
  if (decision.ceilings.length > 0 && !method.ceilings) throw malformed("ceilings for an exact method");
  if (decision.round > 0n && !method.guarded) throw new Refused("ROUND_INVALID"); // only a guard allows one effect over all
  if (decision.round > 0n && !method.guarded) throw new Refused("ROUND_INVALID");
  return method;
}

/** @param {any} decision @param {any} door @param {any} method @param {bigint} now */
function checkBeacon(decision, door, method, now) {
  const { beacon } = door;
  if (beacon === null) throw new Refused("BEACON_STALE");
  const age = now - door.received + lag(beacon, door.received);
  if (age < 0n || age > MAX_AGE_MS[method.callClass]) throw new Refused("BEACON_STALE");
  if (door.keys.version < beacon.keyset_version || door.revocations.seq < beacon.revocations_seq)
    throw new Refused("BEACON_BEHIND");
  if (door.generation !== beacon.generation || decision.generation < beacon.generation)
    throw new Refused("GENERATION_SUPERSEDED");
  if (decision.generation > beacon.generation || decision.config_seq > beacon.config_seq) throw new Refused("BEACON_BEHIND");
  if (decision.bundle_version !== beacon.bundle_version) throw new Refused("BUNDLE_SUPERSEDED");
}

/** @param {any} decision @param {any} door @param {any} method @param {Buffer} body */
function checkArguments(decision, door, method, body) {
  const types = readDescriptors(method.descriptors);
  const { tree, message } = walk(types, method.input_type, method.any_types, body);
  const digest = callDigest(door.toolKey, method.codec, method.path, method.digest, tree);
  const values = valuesOf(message);
  if (resourceOf(method.resource, values) !== decision.resource) throw new Refused("RESOURCE_MISMATCH");
  if (decision.ceilings.length > 0) checkCeilings(decision.ceilings, values, method.money);
  else if (!digest.equals(decision.call_digest)) throw new Refused("DIGEST_MISMATCH");
  checkRules(method, types, values);
  return { digest, message };
}

/** @param {string} template @param {Map<string, any>} values */
function resourceOf(template, values) {
  return template.replace(/\{([\w.]+)\}/g, (_, path) => {
    let value = /** @type {any} */ (values);
    for (const name of path.split(".")) value = value instanceof Map ? value.get(name) : undefined;
    if (typeof value === "bigint") return String(value);
    if (typeof value !== "string" || value === "" || CONTROLS.test(value)) throw new Refused("ARGUMENTS_MALFORMED", path);
    return encodeURIComponent(value).replace(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`);
  });
}

/** @param {any} decision @param {any} door @param {any} method @param {any} call @param {bigint} now @returns {string[]} */
function checkPrivileged(decision, door, method, call, now) {
  if (method.callClass === PRIVILEGED) return checkApprovals(call.approvals, decision, method.approvers, door, now);
  if (call.approvals.length > 0) throw new Refused("APPROVAL_INVALID");
  return [];
}

/** @param {string} text */
function isSpiffeId(text) {
  const match = /^spiffe:\/\/[a-z0-9._-]{1,255}((?:\/[A-Za-z0-9._-]+)+)$/.exec(text);
  return match !== null && text.length <= 2048 && !match[1].split("/").some((part) => part === "." || part === "..");
}
