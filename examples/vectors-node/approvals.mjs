// Approvals of a privileged call: each signed by a person, for these bytes of the hold and this very step.

import { createHash } from "node:crypto";

import { isKeyRevoked } from "./beacon.mjs";
import { holdId, holdId1 } from "./ids.mjs";
import { strictParse, verify } from "./statement.mjs";
import { Refused } from "./tree.mjs";

const MAX_APPROVALS = 4;
const MAX_APPROVAL_BYTES = 4096;
const APPROVE = 1;
const SHARED = ["environment", "hold_id", "spend_id", "call_digest", "generation"];
const DECIDED = [...SHARED, "tenant", "principal", "agent", "task_id", "method", "resource", "audience"];

const invalid = (/** @type {string} */ what) => new Refused("APPROVAL_INVALID", what);
const same = (/** @type {any} */ one, /** @type {any} */ other) =>
  Buffer.isBuffer(one) ? one.equals(other) : one === other;

/** @param {Buffer} proof @param {any} door @param {string} environment @param {bigint} now */
function readVote(proof, door, environment, now) {
  if (proof.length > MAX_APPROVAL_BYTES) throw new Refused("TOO_LARGE", "approval");
  const { hold: holdBytes, approval: signed } = strictParse("ApprovalProof", proof);
  if (signed === null) throw invalid("no approval in it");
  const payload = verify("approval", signed, door.keys, now);
  if (isKeyRevoked(door.revocations, signed.key_id)) throw invalid("the approver's key is revoked");
  const approval = strictParse("Approval", payload);
  const hold = strictParse("Hold", holdBytes);
  const key = door.keys.keys.get(signed.key_id);
  if (![1n, 2n].includes(hold.version) || approval.version !== 1n) throw invalid("version");
  if (!approval.hold_sha256.equals(createHash("sha256").update(holdBytes).digest())) throw invalid("another hold");
  if (!SHARED.every((name) => same(approval[name], hold[name]))) throw invalid("hold and approval disagree");
  if (approval.environment !== environment) throw invalid("another environment");
  if (approval.approver !== key.owner || !key.approver_roles.includes(approval.role)) throw invalid("not their role");
  if (approval.answer < 1 || approval.answer > 3 || now >= approval.not_after_ms) throw invalid("no answer, or ended");
  const needs = hold.requirements.map((/** @type {any} */ need) => [need.rule_id, need.role, Number(need.quorum)]);
  if (needs.some((/** @type {any} */ [, , quorum]) => quorum < 1)) throw invalid("waits for nobody");
  const of1 = () => holdId1(hold.spend_id, hold.call_digest, needs, hold.facts_json);
  if (hold.hold_id !== (hold.version === 1n ? of1() : holdId(holdBytes))) throw invalid("hold id");
  const theirs = needs.filter((/** @type {any} */ [, role]) => role === approval.role).map((/** @type {any} */ [rule]) => rule);
  if (!approval.rule_ids.every((/** @type {string} */ rule) => theirs.includes(rule))) throw invalid("other rules");
  return { hold, approval };
}

/** @param {Buffer[]} proofs @param {any} decision @param {any[]} quotas @param {any} door @param {bigint} now @returns {string[]} */
export function checkApprovals(proofs, decision, quotas, door, now) {
  if (proofs.length === 0) throw new Refused("APPROVAL_MISSING");
  if (proofs.length > MAX_APPROVALS) throw new Refused("TOO_LARGE", "approvals");
  const votes = [];
  for (const proof of proofs) {
    let vote;
    try {
      vote = readVote(proof, door, decision.environment, now);
    } catch (error) {
      if (!(error instanceof Refused) || error.reason === "TOO_LARGE") throw error;
      throw invalid(error.message);
    }
    const { hold, approval } = vote;
    if (!DECIDED.every((name) => same(hold[name], decision[name]))) throw invalid("another decision");
    if (decision.issued_at_ms >= hold.expires_at_ms) throw invalid("the hold had ended");
    if (approval.answer !== APPROVE) throw invalid("not approved");
    if ([...hold.excluded_approvers, decision.principal, decision.caller, decision.agent].includes(approval.approver))
      throw invalid("may not approve");
    votes.push(vote);
  }
  const people = [...new Set(votes.map(({ approval }) => approval.approver))].sort();
  if (people.length !== votes.length) throw invalid("one person twice");
  if (new Set(votes.map(({ approval }) => approval.hold_sha256.toString("hex"))).size !== 1) throw invalid("two holds");
  for (const { role, quorum } of quotas)
    if (votes.filter(({ approval }) => approval.role === role).length < quorum) throw new Refused("APPROVAL_MISSING", role);
  for (const { rule_id: rule, role, quorum } of votes[0].hold.requirements) {
    const count = votes.filter(({ approval }) => approval.role === role && approval.rule_ids.includes(rule)).length;
    if (count < quorum) throw new Refused("APPROVAL_MISSING", rule);
  }
  return people;
}
