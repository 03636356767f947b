// Functions of the engine that end the program when a copy of a long text does not fit: they throw RangeError here.
import { svcIsLargeBlob } from './blob.js';
import { compile, define } from './define.js';
import { checkConstructor, LARGE, svcReserve } from './memory.js';

/** Texts shorter than this are not counted. */
const LONG = 4 << 10;
/** The number of characters of the long texts that headers or parameters hold. */
const held = new WeakMap();

function lengthOf(text) {
  return typeof text === 'string' && text.length >= LONG ? text.length : 0;
}

/** Return the length of a long text with percent-encoding, 0 for another value. */
function encodedLength(text) {
  const length = lengthOf(text);
  return length < LARGE ? length * 3 : encodeURIComponent(text.toWellFormed()).length;
}

/** Check that memory has room for four copies of a text. */
export function checkText(name, text) {
  const length = lengthOf(text);
  if (length >= LARGE) svcReserve(name, length, length, length, length);
}

/** Return how many characters an object holds with two more texts, 0 if these are short. `keep` counts them. */
function holding(object, keep, measure, first, second) {
  const added = measure(first) + measure(second);
  if (!added) return 0;
  const total = (held.get(object) ?? 0) + added;
  if (keep) held.set(object, total);
  return total;
}

/** Check the headers in the options of a request or response: an array of pairs, or an object. */
export function checkFields(fields) {
  let total = 0;
  if (Array.isArray(fields)) for (const field of fields) total += lengthOf(field?.[0]) + lengthOf(field?.[1]);
  else if (fields && typeof fields === 'object') for (const name in fields) total += lengthOf(name) + lengthOf(fields[name]);
  if (total >= LARGE) svcReserve('Headers', total, total, total);
}

/** Return a name or value of a header as text. Throws TypeError as the standard does. */
function byteString(value) {
  const text = `${value}`;
  if (/[^\0-\xff]/.test(text)) throw new TypeError('Headers: a name or value has characters above U+00FF');
  return text;
}

/** Return the fields of an object as pairs. Each property is read once, in the order of the standard. */
function pairsOf(fields) {
  const pairs = [];
  for (const key of Reflect.ownKeys(fields)) {
    if (!Reflect.getOwnPropertyDescriptor(fields, key)?.enumerable) continue;
    const name = byteString(key);
    pairs.push([name, byteString(fields[key])]);
  }
  return pairs;
}

checkConstructor('Headers', (args) => {
  const [fields] = args;
  if (!fields || typeof fields !== 'object') return;
  if (!fields[Symbol.iterator]) args[0] = pairsOf(fields);
  if (Array.isArray(args[0])) checkFields(args[0]);
});

for (const name of ['append', 'set']) {
  const native = Headers.prototype[name];
  define(Headers.prototype, {
    [name](field, value) {
      const total = holding(this, name === 'append', lengthOf, field, value);
      if (total >= LARGE) svcReserve('Headers', total, total, total);
      return native.apply(this, arguments);
    },
  });
}

checkConstructor('URL', (args) => {
  for (const text of args) {
    const length = encodedLength(text);
    if (length >= LARGE) svcReserve('URL', length, length, length);
  }
});

for (const [name, { get, set }] of Object.entries(Object.getOwnPropertyDescriptors(URL.prototype))) {
  if (!set) continue;
  Object.defineProperty(URL.prototype, name, {
    get,
    set(text) {
      const added = encodedLength(text);
      if (added >= LARGE) svcReserve('URL', added, added + this.href.length, added + this.href.length);
      set.call(this, text);
    },
    enumerable: true,
    configurable: true,
  });
}

/** Check that memory has room for parameters, which exist twice, each time in a buffer that grows. */
function checkParameters(total) {
  if (total >= LARGE) svcReserve('URLSearchParams', total, total, 2 * total, 2 * total);
}

checkConstructor('URLSearchParams', ([init]) => {
  const length = lengthOf(init);
  if (length >= LARGE) svcReserve('URLSearchParams', length, length, length);
  if (!init || typeof init !== 'object' || init instanceof URLSearchParams) return;
  let total = 0;
  if (Array.isArray(init)) for (const pair of init) total += encodedLength(pair?.[0]) + encodedLength(pair?.[1]);
  else if (!init[Symbol.iterator]) for (const name in init) total += encodedLength(name) + encodedLength(init[name]);
  checkParameters(total);
});

for (const name of ['append', 'set']) {
  const native = URLSearchParams.prototype[name];
  define(URLSearchParams.prototype, {
    [name](parameter, value) {
      checkParameters(holding(this, name === 'append', encodedLength, parameter, value));
      return native.apply(this, arguments);
    },
  });
}

for (const name of ['append', 'set']) {
  const native = FormData.prototype[name];
  define(FormData.prototype, {
    [name](field, value, ...filename) {
      const isCopied = svcIsLargeBlob(value) && (filename.length > 0 || !(value instanceof File));
      if (!isCopied) return native.apply(this, arguments);
      const { type, lastModified } = value;
      return native.call(this, field, new File([value], filename[0] ?? 'blob', { type, lastModified }));
    },
  });
}

compile(lengthOf, holding, checkFields, pairsOf, byteString);
