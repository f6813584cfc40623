// Which Ed25519 keys may be registered: canonical points of prime order. RFC 8032, 5.1; no secret is touched here.

const P = 2n ** 255n - 19n;
const L = 2n ** 252n + 27742317777372353535851937790883648493n;
const mod = (/** @type {bigint} */ value) => ((value % P) + P) % P;

/** @param {bigint} base @param {bigint} exponent */
function power(base, exponent) {
  let [result, square] = [1n, mod(base)];
  for (let left = exponent; left > 0n; left >>= 1n) {
    if (left & 1n) result = (result * square) % P;
    square = (square * square) % P;
  }
  return result;
}

const D = mod(-121665n * power(121666n, P - 2n));
const ROOT_OF_MINUS_ONE = power(2n, (P - 1n) / 4n);

/** Extended coordinates x, y, z, t; the complete addition of RFC 8032, 5.1.4. @param {bigint[]} one @param {bigint[]} other */
function add([x1, y1, z1, t1], [x2, y2, z2, t2]) {
  const [a, b] = [mod((y1 - x1) * (y2 - x2)), mod((y1 + x1) * (y2 + x2))];
  const [c, d] = [mod(2n * t1 * t2 * D), mod(2n * z1 * z2)];
  const [e, f, g, h] = [b - a, d - c, d + c, b + a];
  return [mod(e * f), mod(g * h), mod(f * g), mod(e * h)];
}

/** @param {bigint[]} point @param {bigint} factor */
function multiply(point, factor) {
  let [result, double] = [[0n, 1n, 1n, 0n], point];
  for (let left = factor; left > 0n; left >>= 1n) {
    if (left & 1n) result = add(result, double);
    double = add(double, double);
  }
  return result;
}

const isIdentity = (/** @type {bigint[]} */ [x, y, z]) => x === 0n && y === z;

/** @param {Buffer} encoding @returns {bigint[] | undefined} */
function decode(encoding) {
  const number = BigInt(`0x${Buffer.from(encoding).reverse().toString("hex")}`);
  const [sign, y] = [number >> 255n, number & (2n ** 255n - 1n)];
  if (y >= P) return undefined;
  const [u, v] = [mod(y * y - 1n), mod(D * y * y + 1n)];
  const square = mod(u * power(v, P - 2n));
  let x = power(square, (P + 3n) / 8n);
  if (mod(x * x) !== square) x = mod(x * ROOT_OF_MINUS_ONE);
  if (mod(x * x) !== square || (x === 0n && sign === 1n)) return undefined;
  if ((x & 1n) !== sign) x = P - x;
  return [x, y, 1n, mod(x * y)];
}

/** @type {Map<string, boolean>} */
const known = new Map();

/** @param {Buffer} key */
export function isStrong(key) {
  if (key.length !== 32) return false;
  const name = key.toString("hex");
  if (!known.has(name)) {
    const point = decode(key);
    known.set(name, point !== undefined && !isIdentity(point) && isIdentity(multiply(point, L)));
  }
  return known.get(name) === true;
}
