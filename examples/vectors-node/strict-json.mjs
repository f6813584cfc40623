// The strict reading of JSON arguments: JSON.parse would take a name twice, and round a large integer.

import * as tree from "./tree.mjs";
import { Budget, MAX_DEPTH, MAX_REQUEST_BYTES, Refused } from "./tree.mjs";

const strict = (/** @type {string} */ what) => new Refused("JSON_STRICT", what);
const malformed = (/** @type {string} */ what) => new Refused("ARGUMENTS_MALFORMED", what);
const strictText = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?/y;
const MAX_NUMBER_CHARACTERS = 1100;

/** @typedef {null | boolean | number | string | any[] | Map<string, any>} Json */

/** @param {any} schema @param {Buffer} request @returns {{tree: Buffer, canonical: Buffer, value: Json}} */
export function readJson(schema, request) {
  if (request.length > MAX_REQUEST_BYTES) throw new Refused("TOO_LARGE");
  let text;
  try {
    text = strictText.decode(request);
  } catch {
    throw strict("not valid UTF-8");
  }
  const value = new Parser(text).whole();
  if (!(value instanceof Map)) throw strict("no object");
  checkText(value);
  const budget = new Budget();
  budget.take(1);
  const encoded = encode(value, budget);
  check(schema, schema, value);
  return { tree: encoded, canonical: Buffer.from(canonical(value), "utf8"), value };
}

class Parser {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  whole() {
    const value = this.#value(0);
    this.#space();
    if (this.at !== this.text.length) throw strict("something after the value");
    return value;
  }

  #space() {
    while (" \t\n\r".includes(this.text[this.at] ?? "x")) this.at += 1;
  }

  /** @param {string} token */
  #take(token) {
    this.#space();
    if (!this.text.startsWith(token, this.at)) return false;
    this.at += token.length;
    return true;
  }

  /** @param {number} depth @returns {Json} */
  #value(depth) {
    if (this.#take("{")) return this.#object(depth + 1);
    if (this.#take("[")) return this.#array(depth + 1);
    if (this.#take('"')) return this.#string();
    for (const [token, value] of /** @type {[string, null | boolean][]} */ ([["null", null], ["true", true], ["false", false]]))
      if (this.#take(token)) return value;
    return this.#number();
  }

  /** @param {number} depth */
  #object(depth) {
    if (depth > MAX_DEPTH) throw malformed("too deep");
    /** @type {Map<string, Json>} */
    const found = new Map();
    if (this.#take("}")) return found;
    do {
      if (!this.#take('"')) throw strict("a name expected");
      const name = this.#string();
      if (found.has(name)) throw strict("a name twice");
      if (!this.#take(":")) throw strict("a colon expected");
      found.set(name, this.#value(depth));
    } while (this.#take(","));
    if (!this.#take("}")) throw strict("an object without an end");
    return found;
  }

  /** @param {number} depth */
  #array(depth) {
    if (depth > MAX_DEPTH) throw malformed("too deep");
    /** @type {Json[]} */
    const found = [];
    if (this.#take("]")) return found;
    do found.push(this.#value(depth));
    while (this.#take(","));
    if (!this.#take("]")) throw strict("an array without an end");
    return found;
  }

  #string() {
    const start = this.at - 1;
    for (; ; this.at += 1) {
      const character = this.text[this.at];
      if (character === undefined || character < " ") throw strict("a text without an end, or a control in it");
      if (character === "\\") this.at += 1;
      else if (character === '"') break;
    }
    this.at += 1;
    try {
      return /** @type {string} */ (JSON.parse(this.text.slice(start, this.at)));
    } catch {
      throw strict("an unknown escape");
    }
  }

  #number() {
    NUMBER.lastIndex = this.at;
    const match = NUMBER.exec(this.text);
    if (match === null) throw strict("no JSON");
    this.at = NUMBER.lastIndex;
    return number(match[0], match[1] !== undefined || match[2] !== undefined);
  }
}

/** @param {string} token @param {boolean} fraction whether it has a fraction or an exponent */
function number(token, fraction) {
  if (token.length > MAX_NUMBER_CHARACTERS) throw strict("too many characters in a number");
  const value = Number(token);
  const digits = token.split(/e/i)[0].replace(/[-.]/g, "");
  if (value === 0 && (token.startsWith("-") || /[1-9]/.test(digits))) throw strict("negative zero, or too small");
  if (Math.abs(value) > Number.MAX_SAFE_INTEGER) throw strict("beyond 2^53 - 1");
  if (fraction && value !== 0 && Number.isInteger(value) && !isExactly(token, BigInt(value)))
    throw strict("more digits than a double holds");
  return value;
}

/** Whether a decimal text is exactly this integer. @param {string} token @param {bigint} value */
function isExactly(token, value) {
  const [mantissa, exponent = "0"] = token.split(/e/i);
  const [whole, part = ""] = mantissa.split(".");
  const scale = Number(exponent) - part.length;
  const digits = BigInt(whole + part);
  return scale >= 0 ? digits * 10n ** BigInt(scale) === value : digits === value * 10n ** BigInt(-scale);
}

/** Refuses lone surrogates. @param {Json} value */
function checkText(value) {
  if (typeof value === "string" && /\p{Surrogate}/u.test(value)) throw strict("a lone surrogate");
  if (Array.isArray(value)) value.forEach(checkText);
  if (value instanceof Map) [...value].flat().forEach(checkText);
}

/** @param {Json} value @param {Budget} budget @returns {Buffer} */
function encode(value, budget) {
  if (value === null) return tree.nothing();
  if (typeof value === "boolean") return tree.flag(value);
  if (typeof value === "string") return tree.text(Buffer.from(value, "utf8"));
  if (typeof value === "number") return Number.isInteger(value) ? tree.integer(BigInt(value)) : tree.floating(value);
  if (Array.isArray(value)) {
    budget.take(value.length);
    return tree.list(value.map((item) => encode(item, budget)));
  }
  budget.take(2 * value.size);
  return tree.mapping([...value].map(([name, item]) => [encode(name, budget), encode(item, budget)]));
}

/** RFC 8785: JavaScript's own forms of text and number, names sorted by UTF-16. @param {Json} value @returns {string} */
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (!(value instanceof Map)) return JSON.stringify(value);
  const names = [...value.keys()].sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(/** @type {Json} */ (value.get(name)))}`).join(",")}}`;
}

/** The keywords that the vectors' schema uses; a real tool takes a JSON Schema library. @param {any} root @param {any} schema @param {Json} value */
function check(root, schema, value) {
  if (schema.$ref === "#") return check(root, root, value);
  if (schema.enum !== undefined && !schema.enum.includes(value)) throw malformed("not listed");
  if (schema.type !== undefined && ![schema.type].flat().some((/** @type {string} */ type) => isOf(type, value)))
    throw malformed("of another type");
  if (schema.maxLength !== undefined && [.../** @type {string} */ (value)].length > schema.maxLength)
    throw malformed("too long");
  if (schema.minimum !== undefined && /** @type {number} */ (value) < schema.minimum) throw malformed("too small");
  if (Array.isArray(value)) for (const item of value) check(root, schema.items, item);
  if (value instanceof Map)
    for (const [name, item] of value) {
      if (!Object.hasOwn(schema.properties, name)) throw new Refused("UNKNOWN_FIELD", "an unnamed property");
      check(root, schema.properties[name], item);
    }
}

/** @param {string} type @param {Json} value */
function isOf(type, value) {
  switch (type) {
    case "object":
      return value instanceof Map;
    case "array":
      return Array.isArray(value);
    case "null":
      return value === null;
    case "integer":
      return Number.isInteger(value);
    default:
      return typeof value === type;
  }
}
