// Ceilings: closed-world constraints on the arguments, docs/protocol-call.md.

import { readDescriptors } from "./descriptors.mjs";
import { isPresent, walk } from "./protobuf.mjs";
import { strictParse } from "./statement.mjs";
import { Refused } from "./tree.mjs";

const [EQ, IN, LE, GE, PREFIX, ABSENT, MAX_LENGTH, MAX_ITEMS] = [1, 2, 3, 4, 5, 6, 7, 8];
const [MESSAGE, STRING, ENUM] = [11, 9, 14];
const MISSING = Symbol("missing");

/**
 * Values as constraints see them: a record is a JavaScript Map, a protobuf map is a KeyedByCaller, an enum number an
 * EnumNumber, integers are BigInt, text is a string.
 */
export class KeyedByCaller {}
export class EnumNumber {
  /** @param {number} number */
  constructor(number) {
    this.value = BigInt(number);
  }
}

/** @param {import("./protobuf.mjs").Message} message @returns {Map<string, any>} */
export function valuesOf(message) {
  if (message.content !== undefined)
    return new Map([["@type", message.values.get(1).toString("utf8")], ...valuesOf(message.content)]);
  const found = new Map();
  for (const [number, value] of message.values) {
    const field = message.type.fields.get(number);
    if (field === undefined || !isPresent(field, value)) continue;
    const one = (/** @type {any} */ item) => {
      if (field.type === MESSAGE) return valuesOf(item);
      if (field.type === ENUM) return new EnumNumber(item);
      return field.type === STRING ? item.toString("utf8") : item;
    };
    if (value instanceof Map) found.set(field.name, new KeyedByCaller());
    else found.set(field.name, field.repeated ? value.map(one) : one(value));
  }
  return found;
}

/** @param {any} scalar @returns {any} */
function operandOf(scalar) {
  return [scalar.integer, scalar.unsigned, scalar.text, scalar.flag, scalar.data].find((part) => part !== null);
}

/** @param {any} value */
const kindOf = (value) =>
  value instanceof EnumNumber ? "bigint" : Buffer.isBuffer(value) ? "bytes" : typeof value;

/** @param {any} value */
const plain = (value) => (value instanceof EnumNumber ? value.value : Buffer.isBuffer(value) ? value.toString("latin1") : value);

/** What stands at a path, once for each element of each list on the way. @param {any} value @param {string[]} path @param {boolean} wholeLists @returns {any[]} */
function targets(value, path, wholeLists) {
  if (Array.isArray(value) && !(wholeLists && path.length === 0))
    return value.length === 0 ? [MISSING] : value.flatMap((item) => targets(item, path, wholeLists));
  if (path.length === 0)
    return [value, ...(Array.isArray(value) ? value.filter(Array.isArray).flatMap((item) => targets(item, path, true)) : [])];
  if (value instanceof Map && value.has(path[0])) return targets(value.get(path[0]), path.slice(1), wholeLists);
  return [MISSING];
}

/** Whether a value fits; undefined when it cannot be compared. @param {number} op @param {any} value @param {any[]} operands */
function fits(op, value, operands) {
  const limit = operands[0];
  switch (op) {
    case EQ:
    case IN:
      if (!["bigint", "bytes", "string", "boolean"].includes(kindOf(value))) return undefined;
      if (operands.some((operand) => kindOf(operand) !== kindOf(value))) return undefined;
      return operands.some((operand) => plain(operand) === plain(value));
    case LE:
    case GE:
      if (typeof value !== "bigint" || typeof limit !== "bigint") return undefined;
      return op === LE ? value <= limit : value >= limit;
    case PREFIX:
      if (typeof value !== "string" || typeof limit !== "string" || limit === "") return undefined;
      return value.startsWith(limit);
    case ABSENT:
      return value === MISSING;
    case MAX_LENGTH:
      if ((typeof value !== "string" && !Buffer.isBuffer(value)) || typeof limit !== "bigint") return undefined;
      return BigInt(Buffer.byteLength(value)) <= limit;
    default:
      return Array.isArray(value) && typeof limit === "bigint" ? BigInt(value.length) <= limit : undefined;
  }
}

/** @param {any} constraint @param {Map<string, any>} values */
function checkOne(constraint, values) {
  const operands = constraint.values.map(operandOf);
  const takes = constraint.op === ABSENT ? operands.length === 0 : constraint.op === IN ? operands.length > 0 : operands.length === 1;
  if (constraint.path.length === 0 || constraint.op < EQ || constraint.op > MAX_ITEMS || !takes || operands.includes(undefined))
    throw new Refused("CEILING_UNMET", "a malformed constraint");
  for (const value of targets(values, constraint.path, constraint.op === ABSENT || constraint.op === MAX_ITEMS)) {
    const result = fits(constraint.op, value, operands);
    if (result === undefined) throw new Refused("CEILING_UNMET", constraint.path.join("."));
    if (!result) throw new Refused("CEILING_EXCEEDED", constraint.path.join("."));
  }
}

/** @param {string} path @param {any} value @param {Set<string>} compared @param {Set<string>} bounded @returns {boolean} */
function isCovered(path, value, compared, bounded) {
  if (Array.isArray(value)) return bounded.has(path) && value.every((item) => isCovered(path, item, compared, bounded));
  if (value instanceof Map && value.size > 0)
    return [...value].every(([name, part]) => isCovered(`${path}\0${name}`, part, compared, bounded));
  return !(value instanceof Map) && !(value instanceof KeyedByCaller) && compared.has(path);
}

/** @param {any[]} constraints @param {Map<string, any>} values @param {{amount: string, currency: string} | null} money */
export function checkCeilings(constraints, values, money) {
  if (constraints.length === 0) throw new Refused("CEILING_UNCOVERED", "no constraint");
  for (const constraint of constraints) checkOne(constraint, values);
  const paths = (/** @type {(op: number) => boolean} */ wanted) =>
    new Set(constraints.filter(({ op }) => wanted(op)).map(({ path }) => `\0${path.join("\0")}`));
  const compared = paths((op) => op !== ABSENT && op !== MAX_ITEMS);
  const bounded = paths((op) => op === MAX_ITEMS);
  for (const [name, value] of values)
    if (!isCovered(`\0${name}`, value, compared, bounded)) throw new Refused("CEILING_UNCOVERED", name);
  if (money === null) return;
  const at = (/** @type {string} */ path, /** @type {number} */ op) =>
    constraints.filter((one) => one.op === op && one.path.join("\0") === path.split(".").join("\0"));
  const floor = at(money.amount, GE).some((one) => operandOf(one.values[0]) >= 1n);
  if (!floor || at(money.amount, LE).length === 0 || at(money.currency, EQ).length === 0)
    throw new Refused("CEILING_UNCOVERED", "money");
}

/** One vector of tests/vectors/ceilings; returns what is wrong. @param {any} vector @returns {string[]} */
export function checkCeilingsVector(vector) {
  const types = readDescriptors(Buffer.from(vector.descriptors, "base64"));
  const { message } = walk(types, vector.input_type, vector.any_types, Buffer.from(vector.request, "hex"));
  const constraints = vector.constraints.map((/** @type {string} */ one) => strictParse("Constraint", Buffer.from(one, "hex")));
  let found = "passes";
  try {
    checkCeilings(constraints, valuesOf(message), vector.money);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    found = error.reason;
  }
  return found === (vector.expected.reason ?? "passes") ? [] : [`found ${found}`];
}
