// Sealed payloads: HPKE of RFC 9180 in base mode, X25519, HKDF-SHA-256, ChaCha20-Poly1305. Opens them alone.

import { createDecipheriv, createHash, createHmac, createPrivateKey, createPublicKey, diffieHellman } from "node:crypto";
import { isDeepStrictEqual } from "node:util";

import { strictParse } from "./statement.mjs";
import { Refused, u32 } from "./tree.mjs";

const [KEY_BYTES, NONCE_BYTES, TAG_BYTES, MAX_KEY_ID_BYTES, MAX_SEALED_BYTES] = [32, 12, 16, 128, 448 << 10];
const KEM = Buffer.from("KEM\x00\x20", "latin1");
const SUITE = Buffer.from("HPKE\x00\x20\x00\x01\x00\x03", "latin1");
const PKCS8_OF_X25519 = Buffer.from("302e020100300506032b656e04220420", "hex");
const SPKI_OF_X25519 = Buffer.from("302a300506032b656e032100", "hex");
const EMPTY = Buffer.alloc(0);

/** Why a payload stays closed. */
class Unopened extends Error {
  /** @param {string} fault */
  constructor(fault) {
    super(fault);
    this.fault = fault;
  }
}

const hex = (/** @type {string} */ text) => Buffer.from(text, "hex");
const joined = (/** @type {string} */ domain, /** @type {string[]} */ texts) =>
  Buffer.concat([Buffer.from(domain), ...texts.flatMap((text) => [u32(Buffer.byteLength(text)), Buffer.from(text)])]);

/** @param {Buffer} suite @param {Buffer} salt @param {string} label @param {Buffer} secret */
const extract = (suite, salt, label, secret) =>
  createHmac("sha256", salt.length > 0 ? salt : Buffer.alloc(KEY_BYTES)).update("HPKE-v1").update(suite).update(label).update(secret).digest();

/** One block is all that is needed. @param {Buffer} suite @param {Buffer} key @param {string} label @param {Buffer} info @param {number} size */
const expand = (suite, key, label, info, size) =>
  createHmac("sha256", key).update(Buffer.from([0, size])).update("HPKE-v1").update(suite).update(label).update(info)
    .update(Buffer.from([1])).digest().subarray(0, size); // prettier-ignore

/** The secret and public X25519 form of an Ed25519 key. @param {Buffer} seed */
function x25519(seed) {
  const scalar = createHash("sha512").update(seed).digest().subarray(0, KEY_BYTES);
  const secret = createPrivateKey({ key: Buffer.concat([PKCS8_OF_X25519, scalar]), format: "der", type: "pkcs8" });
  const spki = createPublicKey(secret).export({ format: "der", type: "spki" });
  return { secret, own: spki.subarray(SPKI_OF_X25519.length) };
}

/** @param {Buffer} seed @param {Buffer} enc */
function agree(seed, enc) {
  const { secret, own } = x25519(seed);
  const theirs = createPublicKey({ key: Buffer.concat([SPKI_OF_X25519, enc]), format: "der", type: "spki" });
  let agreed;
  try {
    agreed = diffieHellman({ privateKey: secret, publicKey: theirs });
  } catch {
    throw new Unopened("NOT_OPENED"); // OpenSSL agrees on nothing with a point of small order
  }
  const extracted = extract(KEM, EMPTY, "eae_prk", agreed);
  return expand(KEM, extracted, "shared_secret", Buffer.concat([enc, own]), KEY_BYTES);
}

/** @param {Buffer} raw */
function readSealed(raw) {
  if (raw.length > MAX_SEALED_BYTES) throw new Unopened("TOO_LARGE");
  let sealed;
  try {
    sealed = strictParse("Sealed", raw);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    throw new Unopened("MALFORMED");
  }
  if (BigInt(sealed.version) !== 1n) throw new Unopened("VERSION_UNKNOWN");
  const idBytes = Buffer.byteLength(sealed.key_id);
  const fits = idBytes >= 1 && idBytes <= MAX_KEY_ID_BYTES;
  if (!fits || sealed.enc.length !== KEY_BYTES || sealed.ciphertext.length < TAG_BYTES) throw new Unopened("MALFORMED");
  return sealed;
}

/** @param {any} vector the place and the seed @param {any} sealed */
function open(vector, sealed) {
  const info = joined("licet-payload-v1\0", [vector.environment, vector.tenant, sealed.key_id]);
  const shared = agree(hex(vector.seed), sealed.enc);
  const schedule = Buffer.concat([
    Buffer.from([0]), extract(SUITE, EMPTY, "psk_id_hash", EMPTY), extract(SUITE, EMPTY, "info_hash", info),
  ]); // prettier-ignore
  const secret = extract(SUITE, shared, "secret", EMPTY);
  const nonce = expand(SUITE, secret, "base_nonce", schedule, NONCE_BYTES);
  u32(Number(sealed.number)).forEach((byte, at) => (nonce[NONCE_BYTES - 4 + at] ^= byte));
  const key = expand(SUITE, secret, "key", schedule, KEY_BYTES);
  const cipher = createDecipheriv("chacha20-poly1305", key, nonce, { authTagLength: TAG_BYTES });
  const at = sealed.ciphertext.length - TAG_BYTES;
  cipher.setAAD(joined("licet-payload-event-v1\0", [vector.event_id]), { plaintextLength: at });
  cipher.setAuthTag(sealed.ciphertext.subarray(at));
  try {
    return Buffer.concat([cipher.update(sealed.ciphertext.subarray(0, at)), cipher.final()]);
  } catch {
    throw new Unopened("NOT_OPENED");
  }
}

/** Checks one vector of tests/vectors/sealed. @param {any} vector @returns {string[]} */
export function checkSealed(vector) {
  const raw = hex(vector.sealed);
  let found;
  try {
    const sealed = readSealed(raw);
    const payload = open(vector, sealed).toString("hex");
    found = { payload, key_id: sealed.key_id, payload_ref: createHash("sha256").update(raw).digest("hex") };
  } catch (error) {
    if (!(error instanceof Unopened)) throw error;
    found = { fault: error.fault };
  }
  return isDeepStrictEqual(found, vector.expected) ? [] : [`found ${JSON.stringify(found)}`];
}
