// The strict walk: a request and its type in, the tree encoding out, or a refusal.
//
// Written from docs/protocol-call.md alone, with no protobuf library: merges, map keys given twice, oneofs,
// packed and unpacked lists are resolved as the format demands; whatever is unknown refuses.

import { Reader } from "./wire.mjs";
import * as tree from "./tree.mjs";
import { Budget, MAX_DEPTH, MAX_REQUEST_BYTES, Refused } from "./tree.mjs";

/** @typedef {import("./descriptors.mjs").Types} Types */
/** @typedef {import("./descriptors.mjs").Field} Field */
/** @typedef {import("./descriptors.mjs").MessageType} MessageType */
/** @typedef {{type: MessageType, values: Map<number, any>, content?: Message}} Message `content` is that of a walked Any */

const [DOUBLE, FLOAT, INT64, UINT64, INT32, FIXED64, FIXED32, BOOL, STRING, , MESSAGE, BYTES, UINT32, ENUM] =
  Array.from({ length: 14 }, (_, index) => index + 1);
const [SFIXED32, SFIXED64, SINT32, SINT64] = [15, 16, 17, 18];
const ANY = ".google.protobuf.Any";
const ANY_URL_PREFIX = "type.googleapis.com/";
/** Deepest nesting that is parsed at all. */
const MAX_PARSED_DEPTH = 100;

const malformed = (/** @type {string} */ what) => new Refused("ARGUMENTS_MALFORMED", what);
const unknown = (/** @type {string} */ what) => new Refused("UNKNOWN_FIELD", what);
const strictText = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * @param {Types} types @param {string} inputType @param {string[]} anyTypes @param {Buffer} request
 * @returns {{tree: Buffer, message: Message}} the tree encoding, and what it was made of
 */
export function walk(types, inputType, anyTypes, request) {
  if (request.length > MAX_REQUEST_BYTES) throw new Refused("TOO_LARGE");
  const walker = new Walker(types, new Set(anyTypes));
  const message = walker.known(`.${inputType}`, request);
  walker.budget.take(1);
  return { tree: walker.message(message, 1), message };
}

/** Parses strictly but for enum numbers. @param {Types} types @param {string} name @param {Buffer} data */
export const parse = (types, name, data) => new Walker(types, new Set()).known(`.${name}`, data);


class Walker {
  /** @param {Types} types @param {Set<string>} anyTypes */
  constructor(types, anyTypes) {
    this.types = types;
    this.anyTypes = anyTypes;
    this.budget = new Budget();
  }

  /** Parses, then refuses what is unknown anywhere below. @param {string} name @param {Buffer} data */
  known(name, data) {
    const type = this.types.messages.get(name);
    if (type === undefined) throw new Error(`no type ${name}`);
    this.sawUnknown = false;
    const message = { type, values: new Map() };
    this.#merge(message, data, 1);
    checkRequired(message);
    if (this.sawUnknown) throw unknown("a field");
    return message;
  }

  /** @param {Message} message @param {Buffer} data @param {number} depth */
  #merge(message, data, depth) {
    if (depth > MAX_PARSED_DEPTH + 1) throw malformed("too deep to parse");
    const reader = new Reader(data);
    while (!reader.done) {
      const { number, wire, value } = reader.field();
      const field = message.type.fields.get(number);
      const read = field === undefined ? undefined : this.#read(field, wire, value, depth);
      if (field === undefined || read === undefined) this.sawUnknown = true;
      else this.#store(message, field, read, depth);
    }
  }

  /**
   * Reads one field of the wire as its declared type: a list of values, or undefined when it is unknown.
   * @param {Field} field @param {number} wire @param {any} value @param {number} depth @returns {any[] | undefined}
   */
  #read(field, wire, value, depth) {
    if (field.type === STRING || field.type === BYTES || field.type === MESSAGE) {
      if (wire !== 2) return undefined;
      if (field.type === STRING && field.checkText) checkText(value);
      return [value];
    }
    let values;
    if (wire === wireOf(field.type)) values = [value];
    else if (wire === 2 && field.repeated) values = unpack(field.type, value);
    else return undefined;
    const numbers = values.map((one) => scalar(field.type, one));
    if (field.type !== ENUM) return numbers;
    const { closed, numbers: listed } = this.#enumeration(field);
    if (!closed) return numbers;
    const kept = numbers.filter((number) => listed.has(number)); // a closed enum's reader drops the others
    if (kept.length < numbers.length) this.sawUnknown = true;
    return kept.length > 0 || values.length === 0 ? kept : undefined;
  }

  /** @param {Field} field */
  #enumeration(field) {
    const enumeration = this.types.enums.get(field.typeName);
    if (enumeration === undefined) throw new Error(`no enum ${field.typeName}`);
    return enumeration;
  }

  /** @param {Message} message @param {Field} field @param {any[]} read @param {number} depth */
  #store(message, field, read, depth) {
    const type = this.types.messages.get(field.typeName);
    if (type?.mapEntry) {
      for (const entry of read) this.#storeEntry(message, field, type, entry, depth);
      return;
    }
    if (field.oneof !== null) {
      for (const other of message.type.fields.values())
        if (other.oneof === field.oneof && other.number !== field.number) message.values.delete(other.number);
    }
    for (let value of read) {
      if (type !== undefined) {
        const before = field.repeated ? undefined : message.values.get(field.number);
        const part = before ?? { type, values: new Map() };
        this.#merge(part, value, depth + 1);
        value = part;
      }
      if (!field.repeated) message.values.set(field.number, value);
      else message.values.set(field.number, [...(message.values.get(field.number) ?? []), value]);
    }
  }

  /** @param {Message} message @param {Field} field @param {MessageType} type @param {Buffer} data @param {number} depth */
  #storeEntry(message, field, type, data, depth) {
    const before = this.sawUnknown;
    this.sawUnknown = false;
    const entry = { type, values: new Map() };
    this.#merge(entry, data, depth + 1);
    const entries = message.values.get(field.number) ?? new Map();
    message.values.set(field.number, entries);
    const [keyField, valueField] = [type.fields.get(1), type.fields.get(2)];
    if (keyField === undefined || valueField === undefined) throw new Error("no map entry");
    const key = entry.values.get(1) ?? zero(keyField, undefined);
    const value = entry.values.get(2) ?? zero(valueField, this.types.messages.get(valueField.typeName));
    entries.set(Buffer.isBuffer(key) ? key.toString("latin1") : key, [key, value]);
    this.sawUnknown ||= before;
  }

  /** @param {Message} message @param {number} depth @returns {Buffer} */
  message(message, depth) {
    if (depth > MAX_DEPTH) throw malformed("too deep");
    if (message.type.name === ANY) return this.#any(message, depth);
    const present = [...message.values].filter(([number, value]) =>
      isPresent(/** @type {Field} */ (message.type.fields.get(number)), value),
    );
    present.sort(([one], [other]) => one - other);
    this.budget.take(present.length);
    return tree.message(
      present.map(([number, value]) => [
        number,
        this.#field(/** @type {Field} */ (message.type.fields.get(number)), value, depth),
      ]),
    );
  }

  /** @param {Field} field @param {any} value @param {number} depth @returns {Buffer} */
  #field(field, value, depth) {
    const entryType = this.types.messages.get(field.typeName);
    if (entryType?.mapEntry) {
      const [keyField, valueField] = [entryType.fields.get(1), entryType.fields.get(2)];
      if (keyField === undefined || valueField === undefined) throw new Error("no map entry");
      this.budget.take(2 * value.size);
      return tree.mapping(
        [...value.values()].map(([key, item]) => [this.#one(keyField, key, depth), this.#one(valueField, item, depth)]),
      );
    }
    if (!field.repeated) return this.#one(field, value, depth);
    this.budget.take(value.length);
    return tree.list(value.map((/** @type {any} */ item) => this.#one(field, item, depth)));
  }

  /** @param {Field} field @param {any} value @param {number} depth @returns {Buffer} */
  #one(field, value, depth) {
    switch (field.type) {
      case MESSAGE:
        return this.message(value, depth + 1);
      case STRING:
        checkText(value);
        return tree.text(value);
      case BYTES:
        return tree.bytes(value);
      case BOOL:
        return tree.flag(value);
      case ENUM:
        if (!this.#enumeration(field).numbers.has(value)) throw unknown("an enum number");
        return tree.enumNumber(value);
      case DOUBLE:
      case FLOAT:
        if (!Number.isFinite(value) || Object.is(value, -0)) throw malformed("a number that is none");
        return tree.floating(value);
      case UINT32:
      case UINT64:
      case FIXED32:
      case FIXED64:
        return tree.unsigned(value);
      default:
        return tree.integer(value);
    }
  }

  /** @param {Message} message @param {number} depth @returns {Buffer} */
  #any(message, depth) {
    const url = message.values.get(1) ?? Buffer.alloc(0);
    const name = url.toString("utf8");
    if (!name.startsWith(ANY_URL_PREFIX) || !this.anyTypes.has(name.slice(ANY_URL_PREFIX.length)))
      throw unknown("an Any of an unlisted type");
    const content = this.known(
      `.${name.slice(ANY_URL_PREFIX.length)}`,
      message.values.get(2) ?? Buffer.alloc(0),
    );
    message.content = content;
    this.budget.take(1);
    return tree.any(url, this.message(content, depth + 1));
  }
}

/** @param {Message} message */
function checkRequired(message) {
  for (const field of message.type.fields.values())
    if (field.required && !message.values.has(field.number)) throw malformed("a required field is missing");
  for (const value of message.values.values()) {
    const parts = value instanceof Map ? [...value.values()].map(([, item]) => item) : [value].flat();
    for (const part of parts) if (part?.type !== undefined) checkRequired(part);
  }
}

/** @param {Buffer} data */
function checkText(data) {
  try {
    strictText.decode(data);
  } catch {
    throw malformed("a text is not valid UTF-8");
  }
}

/** @param {number} type */
function wireOf(type) {
  if ([DOUBLE, FIXED64, SFIXED64].includes(type)) return 1;
  return [FLOAT, FIXED32, SFIXED32].includes(type) ? 5 : 0;
}

/** @param {number} type @param {Buffer} data */
function unpack(type, data) {
  const reader = new Reader(data);
  const values = [];
  const wire = wireOf(type);
  while (!reader.done) values.push(wire === 0 ? reader.varint() : reader.take(wire === 1 ? 8 : 4));
  return values;
}

/** @param {number} type @param {any} value a varint, or the bytes of a fixed width */
function scalar(type, value) {
  switch (type) {
    case DOUBLE:
      return value.readDoubleLE();
    case FLOAT:
      return value.readFloatLE();
    case FIXED32:
      return BigInt(value.readUInt32LE());
    case SFIXED32:
      return BigInt(value.readInt32LE());
    case FIXED64:
      return value.readBigUInt64LE();
    case SFIXED64:
      return value.readBigInt64LE();
    case INT32:
      return BigInt.asIntN(32, value);
    case ENUM:
      return Number(BigInt.asIntN(32, value));
    case INT64:
      return BigInt.asIntN(64, value);
    case UINT32:
      return BigInt.asUintN(32, value);
    case SINT32:
      return zigzag(BigInt.asUintN(32, value));
    case SINT64:
      return zigzag(value);
    case BOOL:
      return value !== 0n;
    default:
      return value; // UINT64
  }
}

/** @param {bigint} value */
const zigzag = (value) => (value & 1n ? -((value + 1n) >> 1n) : value >> 1n);

/** @param {Field} field @param {MessageType | undefined} type */
function zero(field, type) {
  if (type !== undefined) return { type, values: new Map() };
  if (field.type === STRING || field.type === BYTES) return Buffer.alloc(0);
  if (field.type === BOOL) return false;
  return [DOUBLE, FLOAT, ENUM].includes(field.type) ? 0 : 0n;
}

/** @param {Field} field @param {any} value */
export function isPresent(field, value) {
  if (field.repeated) return (value instanceof Map ? value.size : value.length) > 0;
  if (field.presence) return true;
  if (Buffer.isBuffer(value)) return value.length > 0;
  return value !== 0n && value !== false && !Object.is(value, 0); // -0 is present, and refused
}
