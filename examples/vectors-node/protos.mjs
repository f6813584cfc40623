// The messages of package licet.v1, read from the .proto files themselves: names, numbers, types.

import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** @typedef {import("./descriptors.mjs").Types} Types */

const SCALARS = new Map([
  ["int64", 3], ["uint64", 4], ["int32", 5], ["bool", 8], ["string", 9], ["bytes", 12], ["uint32", 13],
]); // prettier-ignore
const [MESSAGE, ENUM] = [11, 14];
const FIELD = /^(repeated |optional )?(map<(\w+), ([\w.]+)>|[\w.]+) (\w+) = (\d+)/;

/** @param {string} [folder] @returns {Types} */
export function readProtos(folder = fileURLToPath(new URL("../../proto/licet/v1/", import.meta.url))) {
  /** @type {Types} */
  const types = { messages: new Map(), enums: new Map() };
  const text = readdirSync(folder)
    .filter((name) => name.endsWith(".proto"))
    .map((name) => readFileSync(`${folder}/${name}`, "utf8").replace(/\/\/.*$/gm, ""))
    .join("\n");
  for (const [, name, body] of text.matchAll(/^enum (\w+) \{([^}]*)\}/gm)) {
    const numbers = [...body.matchAll(/\w+ = (-?\d+);/g)].map(([, number]) => Number(number));
    types.enums.set(`.licet.v1.${name}`, { numbers: new Set(numbers), closed: false });
  }
  for (const [, name, body] of text.matchAll(/^message (\w+) \{((?:[^{}]|\{[^{}]*\})*)\}/gm)) readMessage(types, name, body);
  return types;
}

/** @param {Types} types @param {string} name @param {string} body */
function readMessage(types, name, body) {
  const fields = new Map();
  const flat = [
    ...body.replace(/oneof \w+ \{([^}]*)\}/g, "").split(";").map((line) => ({ line, oneof: null })),
    ...[...body.matchAll(/oneof \w+ \{([^}]*)\}/g)].flatMap(([, part], index) =>
      part.split(";").map((line) => ({ line, oneof: index })),
    ),
  ];
  for (const { line, oneof } of flat) {
    const match = FIELD.exec(line.trim());
    if (match === null) continue;
    const [, label, type, key, value, field, number] = match;
    const entry = `.licet.v1.${name}.${field}Entry`;
    if (key !== undefined) {
      const parts = [makeField(types, "key", 1, key, false, null), makeField(types, "value", 2, value, false, null)];
      types.messages.set(entry, { name: entry, fields: new Map(parts.map((part) => [part.number, part])), mapEntry: true });
    }
    const made = makeField(types, field, Number(number), key === undefined ? type : entry, label === "repeated " || key !== undefined, oneof);
    made.presence ||= label === "optional ";
    fields.set(made.number, made);
  }
  types.messages.set(`.licet.v1.${name}`, { name: `.licet.v1.${name}`, fields, mapEntry: false });
}

/**
 * @param {Types} types @param {string} name @param {number} number @param {string} type @param {boolean} repeated
 * @param {number | null} oneof
 */
function makeField(types, name, number, type, repeated, oneof) {
  const scalar = SCALARS.get(type);
  const typeName = scalar !== undefined ? "" : type.startsWith(".") ? type : `.licet.v1.${type}`;
  const kind = scalar ?? (types.enums.has(typeName) ? ENUM : MESSAGE);
  const presence = !repeated && (kind === MESSAGE || oneof !== null);
  return { name, number, type: kind, repeated, required: false, presence, oneof, typeName, checkText: true };
}
