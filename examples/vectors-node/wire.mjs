// Protobuf's wire format, nothing of its meaning: tags, varints, lengths, groups.

import { Refused } from "./tree.mjs";

const malformed = (/** @type {string} */ what) => new Refused("ARGUMENTS_MALFORMED", what);

/**
 * @typedef {{number: number, wire: number, value: bigint | Buffer | null}} WireField `value` is null for a group
 */

/** Reads from a buffer, never past its end. */
export class Reader {
  /** @param {Buffer} data */
  constructor(data) {
    this.data = data;
    this.at = 0;
  }

  get done() {
    return this.at === this.data.length;
  }

  /** Overlong forms are read; more than ten bytes are not. */
  varint() {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      if (this.done) throw malformed("truncated varint");
      const byte = this.data[this.at++];
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asUintN(64, value);
    }
    throw malformed("varint of more than ten bytes");
  }

  /** @param {number} count */
  take(count) {
    if (count > this.data.length - this.at) throw malformed("truncated");
    return this.data.subarray(this.at, (this.at += count));
  }

  /** @param {number} [depth] @returns {WireField} */
  field(depth = 0) {
    const tag = this.varint();
    const number = Number(tag >> 3n);
    const wire = Number(tag & 7n);
    if (number === 0 || tag >= 1n << 32n) throw malformed("no such field number");
    switch (wire) {
      case 0:
        return { number, wire, value: this.varint() };
      case 1:
        return { number, wire, value: this.take(8) };
      case 2:
        return { number, wire, value: this.take(Number(this.varint())) };
      case 3:
        this.#skipGroup(number, depth + 1);
        return { number, wire, value: null };
      case 5:
        return { number, wire, value: this.take(4) };
      default:
        throw malformed("no such wire type, or the end of no group");
    }
  }

  /** @param {number} number @param {number} depth */
  #skipGroup(number, depth) {
    if (depth > 100) throw malformed("groups too deep");
    for (;;) {
      const before = this.at;
      const tag = this.varint();
      if (Number(tag & 7n) === 4) {
        if (Number(tag >> 3n) !== number) throw malformed("the end of another group");
        return;
      }
      this.at = before;
      this.field(depth);
    }
  }
}

/** @param {Buffer} data @returns {WireField[]} */
export function readFields(data) {
  const reader = new Reader(data);
  const fields = [];
  while (!reader.done) fields.push(reader.field());
  return fields;
}
