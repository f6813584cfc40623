// Beacon and revocation list: what is current, and what no longer holds.

import { strictParse, verify } from "./statement.mjs";
import { Refused } from "./tree.mjs";

export const MAX_SKEW_MS = 1000n;
/** By class: read, write, privileged. */
export const MAX_AGE_MS = /** @type {Record<number, bigint>} */ ({ 1: 60_000n, 2: 5_000n, 3: 5_000n });
const REASON_OF_KIND = ["", "DECISION_REVOKED", "KEY_REVOKED", "TASK_REVOKED", "AGENT_REVOKED", "PRINCIPAL_REVOKED",
  "DELEGATION_REVOKED", "TOOL_STOPPED", "ENVIRONMENT_STOPPED"]; // prettier-ignore
const [DECISION, KEY, TASK, AGENT, PRINCIPAL, DELEGATION, TOOL, ENVIRONMENT] = [1, 2, 3, 4, 5, 6, 7, 8];

/** @param {any} signed @param {any} keys @param {string} environment @param {bigint} now */
export function readBeacon(signed, keys, environment, now) {
  const beacon = strictParse("Beacon", verify("beacon", signed, keys, now));
  if (beacon.environment !== environment) throw new Refused("ENVIRONMENT_MISMATCH", "beacon");
  const isWhole = beacon.bundle_sha256.length === 32 && beacon.keyset_sha256.length === 32 &&
    beacon.revocations_sha256.length === (beacon.revocations_seq > 0n ? 32 : 0); // prettier-ignore
  if (beacon.version !== 1n || !isWhole) throw new Refused("PERMIT_MALFORMED", "beacon");
  if (beacon.issued_at_ms > now + MAX_SKEW_MS) throw new Refused("NOT_YET_VALID", "beacon");
  if (now - beacon.issued_at_ms > MAX_AGE_MS[1]) throw new Refused("BEACON_STALE", "beacon");
  return beacon;
}

/** Refuses a beacon that goes back. @param {any} previous @param {any} beacon */
export function checkSucceeds(previous, beacon) {
  if (previous === null || beacon.generation > previous.generation) return;
  for (const name of ["generation", "config_seq", "revocations_seq", "keyset_version", "bundle_version"])
    if (beacon[name] < previous[name]) throw new Refused("BEACON_STALE", `${name} went back`);
  const digests = (/** @type {any} */ one) => Buffer.concat([one.bundle_sha256, one.keyset_sha256, one.revocations_sha256]);
  if (beacon.config_seq === previous.config_seq && !digests(beacon).equals(digests(previous)))
    throw new Refused("BEACON_STALE", "two configurations of one number");
}

/** Age at receipt: a clock behind the issuer's makes no beacon younger than new. @param {any} beacon @param {bigint} received */
export const lag = (beacon, received) => (received > beacon.issued_at_ms ? received - beacon.issued_at_ms : 0n);

/** @param {any} signed @param {any} keys @param {string} environment @param {bigint} now */
export function readRevocations(signed, keys, environment, now) {
  const list = strictParse("RevocationList", verify("revocations", signed, keys, now));
  if (list.environment !== environment) throw new Refused("ENVIRONMENT_MISMATCH", "revocations");
  const isBad = (/** @type {any} */ entry) => entry.kind < DECISION || entry.kind > ENVIRONMENT || entry.id === "";
  if (list.version !== 1n || list.revocations_seq < 1n || list.revocations.some(isBad))
    throw new Refused("PERMIT_MALFORMED", "revocations");
  const names = new Set(list.revocations.map((/** @type {any} */ entry) => `${entry.kind}:${entry.id}`));
  return { seq: list.revocations_seq, names };
}

/** @param {{names: Set<string>}} revocations @param {any} decision @param {string} keyId */
export function checkRevoked(revocations, decision, keyId) {
  const touched = [[ENVIRONMENT, decision.environment], [TOOL, decision.audience], [KEY, keyId],
    [DECISION, decision.decision_id], [TASK, decision.task_id], [AGENT, decision.agent],
    [PRINCIPAL, decision.principal], ...decision.delegations.map((/** @type {string} */ one) => [DELEGATION, one])]; // prettier-ignore
  for (const [kind, name] of touched)
    if (revocations.names.has(`${kind}:${name}`)) throw new Refused(REASON_OF_KIND[kind], name);
}

export const isKeyRevoked = (/** @type {{names: Set<string>}} */ revocations, /** @type {string} */ keyId) =>
  revocations.names.has(`${KEY}:${keyId}`);
