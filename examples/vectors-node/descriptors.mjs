// Reads a FileDescriptorSet into what a strict walk needs to know of each type. Field numbers are those of
// google/protobuf/descriptor.proto.

import { readFields } from "./wire.mjs";

/**
 * @typedef {{name: string, number: number, type: number, repeated: boolean, required: boolean, presence: boolean,
 *   oneof: number | null, typeName: string, checkText: boolean}} Field
 * @typedef {{name: string, fields: Map<number, Field>, mapEntry: boolean}} MessageType
 * @typedef {{numbers: Set<number>, closed: boolean}} EnumType
 * @typedef {{messages: Map<string, MessageType>, enums: Map<string, EnumType>}} Types
 */

const TYPE_MESSAGE = 11;

/** @param {Buffer} descriptors @returns {Types} */
export function readDescriptors(descriptors) {
  /** @type {Types} */
  const types = { messages: new Map(), enums: new Map() };
  for (const file of all(readFields(descriptors), 1)) {
    const fields = readFields(file);
    const proto3 = textOf(fields, 12) === "proto3";
    const scope = textOf(fields, 2) ? `.${textOf(fields, 2)}` : "";
    for (const enumeration of all(fields, 5)) readEnum(types, scope, enumeration, proto3);
    for (const message of all(fields, 4)) readMessage(types, scope, message, proto3);
  }
  return types;
}

/** @param {Types} types @param {string} scope @param {Buffer} data @param {boolean} proto3 */
function readEnum(types, scope, data, proto3) {
  const fields = readFields(data);
  const numbers = all(fields, 2).map((value) => Number(BigInt.asIntN(32, numberOf(readFields(value), 2))));
  types.enums.set(`${scope}.${textOf(fields, 1)}`, { numbers: new Set(numbers), closed: !proto3 });
}

/** @param {Types} types @param {string} scope @param {Buffer} data @param {boolean} proto3 */
function readMessage(types, scope, data, proto3) {
  const parts = readFields(data);
  const name = `${scope}.${textOf(parts, 1)}`;
  const options = all(parts, 7).at(-1);
  const mapEntry = options !== undefined && numberOf(readFields(options), 7) === 1n;
  const fields = new Map(all(parts, 2).map((field) => readField(field, proto3)).map((f) => [f.number, f]));
  types.messages.set(name, { name, fields, mapEntry });
  for (const enumeration of all(parts, 4)) readEnum(types, name, enumeration, proto3);
  for (const nested of all(parts, 3)) readMessage(types, name, nested, proto3);
}

/** @param {Buffer} data @param {boolean} proto3 @returns {Field} */
function readField(data, proto3) {
  const parts = readFields(data);
  const label = numberOf(parts, 4);
  const type = Number(numberOf(parts, 5));
  const oneof = parts.some((part) => part.number === 9) ? Number(numberOf(parts, 9)) : null;
  return {
    name: textOf(parts, 1),
    number: Number(numberOf(parts, 3)),
    type,
    repeated: label === 3n,
    required: label === 2n,
    presence: label !== 3n && (!proto3 || oneof !== null || type === TYPE_MESSAGE),
    oneof,
    typeName: textOf(parts, 6),
    checkText: proto3,
  };
}

/** @param {ReturnType<typeof readFields>} fields @param {number} number @returns {Buffer[]} */
const all = (fields, number) =>
  fields.filter((field) => field.number === number).map((field) => /** @type {Buffer} */ (field.value));

/** @param {ReturnType<typeof readFields>} fields @param {number} number */
const textOf = (fields, number) => all(fields, number).at(-1)?.toString("utf8") ?? "";

/** @param {ReturnType<typeof readFields>} fields @param {number} number @returns {bigint} */
const numberOf = (fields, number) =>
  /** @type {bigint} */ (fields.filter((field) => field.number === number).at(-1)?.value ?? 0n);
