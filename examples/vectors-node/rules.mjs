// The catalog's argument rules as the door checks them: all but `pattern` and `visible`, docs/protocol-permit.md.

import { Refused } from "./tree.mjs";

const LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
const HOST = `(?:${LABEL}\\.)+(?:[A-Za-z]|[Xx][Nn]--)(?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])`;
const WEB = new RegExp(`^([A-Za-z][A-Za-z0-9+.-]{0,20})://(${HOST})(?::([0-9]{1,5}))?(?:/[\\x21-\\x5b\\x5d-\\x7e]*)?$`);
const MAIL = new RegExp(`^[A-Za-z0-9_+=~-]{1,64}(?:\\.[A-Za-z0-9_+=~-]{1,64}){0,8}@(${HOST})$`);
const PORTS = new Map([["https", "443"], ["http", "80"], ["wss", "443"], ["ws", "80"]]); // prettier-ignore

/** Every value at a path, through lists. @param {any} value @param {string[]} path @returns {any[]} */
function at(value, path) {
  if (Array.isArray(value)) return value.flatMap((item) => at(item, path));
  if (path.length === 0) return value instanceof Map ? [] : [value];
  return value instanceof Map && value.has(path[0]) ? at(value.get(path[0]), path.slice(1)) : [];
}

/** @param {string} address @param {string[]} schemes @returns {string | null} */
function domainOf(address, schemes) {
  if (!address.includes("://")) return MAIL.exec(address)?.[1].toLowerCase() ?? null;
  const [, scheme, host, port] = WEB.exec(address) ?? [];
  if (host === undefined || !schemes.includes(scheme.toLowerCase())) return null;
  return port === undefined || port === PORTS.get(scheme.toLowerCase()) ? host.toLowerCase() : null;
}

/** @param {any} rule @param {any} value @returns {boolean} */
function ofDomains(rule, value) {
  if (value === "") return true;
  const domain = typeof value === "string" ? domainOf(value, rule.schemes.length > 0 ? rule.schemes : ["https"]) : null;
  if (domain === null || domain.length > 253) return false;
  const above = [...domain.matchAll(/\./g)].map(({ index }) => `*.${domain.slice(index + 1)}`);
  return [domain, ...above].some((name) => rule.domains.includes(name));
}

/** @param {any} rule @param {any} value @returns {boolean} */
function meets(rule, value) {
  if ((rule.min !== null || rule.max !== null) && typeof value !== "bigint") return false;
  if (rule.min !== null && value < rule.min) return false;
  if (rule.max !== null && value > rule.max) return false;
  const longest = Number(rule.max_length);
  if (longest > 0 && !(typeof value === "string" && Buffer.byteLength(value) <= longest)) return false;
  if (rule.one_of.length > 0 && !rule.one_of.includes(String(value))) return false;
  return rule.domains.length === 0 || ofDomains(rule, value);
}

/** What a tool reads where nothing was sent. @param {any} types @param {string} type @param {string[]} path @returns {any[]} */
function defaultAt(types, type, path) {
  const field = [...types.messages.get(type).fields.values()].find(({ name }) => name === path[0]);
  if (field === undefined || field.repeated) return [];
  if (path.length > 1) return defaultAt(types, field.typeName, path.slice(1));
  if (field.presence) return [];
  const [STRING, BOOL, WITHOUT] = [9, 8, [1, 2, 11, 12, 14]];
  if (WITHOUT.includes(field.type)) return [];
  return [field.type === STRING ? "" : field.type === BOOL ? false : 0n];
}

/** @param {any} method @param {any} types @param {Map<string, any>} values */
export function checkRules(method, types, values) {
  for (const rule of method.arguments) {
    const path = rule.path.split(".");
    let found = at(values, path);
    const refuse = (/** @type {boolean} */ wrong) => {
      if (wrong) throw new Refused("ARGUMENT_REFUSED", rule.path);
    };
    refuse(rule.required && found.length === 0);
    refuse(Number(rule.max_items) > 0 && found.length > Number(rule.max_items));
    if (found.length === 0) found = defaultAt(types, `.${method.input_type}`, path);
    refuse(!found.every((value) => meets(rule, value)));
  }
}
