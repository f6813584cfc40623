// The tree encoding of docs/protocol-call.md: one letter a value, all numbers big-endian, lengths 32 bits.

/** A refusal: a reason of the protocol's closed list. */
export class Refused extends Error {
  /** @param {string} reason @param {string} [detail] */
  constructor(reason, detail = "") {
    super(`${reason}: ${detail}`);
    this.reason = reason;
  }
}

export const MAX_REQUEST_BYTES = 1 << 20;
export const MAX_DEPTH = 32;
export const MAX_NODES = 10_000;

/** @param {number} value */
export const u32 = (value) => {
  const out = Buffer.alloc(4);
  out.writeUInt32BE(value);
  return out;
};

const letter = (/** @type {string} */ name, /** @type {Buffer[]} */ ...rest) =>
  Buffer.concat([Buffer.from(name, "latin1"), ...rest]);

/** @param {bigint} value */
export const integer = (value) => {
  const out = Buffer.alloc(8);
  out.writeBigInt64BE(value);
  return letter("I", out);
};

/** @param {bigint} value */
export const unsigned = (value) => {
  const out = Buffer.alloc(8);
  out.writeBigUInt64BE(value);
  return letter("U", out);
};

/** @param {number} value */
export const enumNumber = (value) => {
  const out = Buffer.alloc(4);
  out.writeInt32BE(value);
  return letter("E", out);
};

/** @param {number} value */
export const floating = (value) => {
  const out = Buffer.alloc(8);
  out.writeDoubleBE(value);
  return letter("F", out);
};

export const flag = (/** @type {boolean} */ value) => letter("B", Buffer.from([value ? 1 : 0]));
export const text = (/** @type {Buffer} */ utf8) => letter("S", u32(utf8.length), utf8);
export const bytes = (/** @type {Buffer} */ data) => letter("Y", u32(data.length), data);
export const nothing = () => letter("N");
export const list = (/** @type {Buffer[]} */ items) => letter("L", u32(items.length), ...items);
export const any = (/** @type {Buffer} */ url, /** @type {Buffer} */ message) =>
  letter("A", u32(url.length), url, message);

/** @param {[number, Buffer][]} fields present fields, ascending by number */
export const message = (fields) =>
  letter("M", u32(fields.length), ...fields.flatMap(([number, value]) => [u32(number), value]));

/** @param {[Buffer, Buffer][]} entries encoded keys and values, in any order */
export const mapping = (entries) => {
  const sorted = [...entries].sort(([one], [other]) => Buffer.compare(one, other));
  return letter("K", u32(sorted.length), ...sorted.flat());
};

/** Counts values; refuses the first too many. */
export class Budget {
  left = MAX_NODES;

  /** @param {number} nodes */
  take(nodes) {
    this.left -= nodes;
    if (this.left < 0) throw new Refused("ARGUMENTS_MALFORMED", "too many values");
  }
}
