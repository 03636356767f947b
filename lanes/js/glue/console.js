// Values of console calls as text. The engine prints errors without their stack and platform objects without their
// entries, knows no format specifiers, and its assert() prints what holds.
import { svcDescribe } from './failure.js';

const LEVELS = 1000;
const OBJECTS = 10_000;
/** Characters of a value, a little more than the host takes of a request's output. */
const CHARACTERS = (1 << 20) + 1;
const FORMATTED = ['debug', 'error', 'group', 'groupCollapsed', 'info', 'log', 'trace', 'warn'];
const LISTED = ['dir', 'dirxml', 'table', 'timeLog'];
const PAIRS = [Map, Headers, URLSearchParams, FormData];
/** Properties of objects that have others whose getters have effects. */
const PROPERTIES = [
  [Request, ['method', 'url', 'headers', 'bodyUsed']],
  [Response, ['status', 'statusText', 'url', 'headers', 'bodyUsed']],
];

/** Thrown for a value that is too large; the message says why. */
class Excess extends Error {}

function nameOf(value) {
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype ? '' : prototype.constructor?.name ?? '';
}

/** Return parts within brackets. A stack ends with a line break, so that the host finds its last frame. */
function enclosed(name, open, parts, close) {
  const space = open === '{' && parts.length ? ' ' : '';
  const text = parts.map((part, at) => (at < parts.length - 1 && !part.endsWith('\n') ? `${part}, ` : part)).join('');
  return `${name && `${name} `}${open}${space}${text}${text.endsWith('\n') ? '' : space}${close}`;
}

/** Return a value as text. Throws Excess. */
function inspected(value) {
  const above = new Set();
  let objects = OBJECTS, left = CHARACTERS;

  function reserve(count) {
    if (count > left) throw new Excess(`more than ${CHARACTERS} values or characters`);
  }

  function taken(text) {
    reserve(text.length);
    left -= text.length;
    return text;
  }

  function propertiesOf(object) {
    const known = PROPERTIES.find(([type]) => object instanceof type)?.[1];
    const entries = [];
    for (const key of known ?? enumerated(object)) {
      const getter = Object.getOwnPropertyDescriptor(object, key)?.get;
      entries.push(`${taken(key)}: ${getter ? '[Getter]' : show(object[key])}`);
    }
    return entries;
  }

  function* enumerated(object) {
    for (const key in object) if (Object.hasOwn(object, key) || typeof object[key] !== 'function') yield key;
  }

  function contentOf(object) {
    if (object instanceof Error) return taken(svcDescribe(object)).replace(/\n[^\n]*$/, '$&\n');
    if (object instanceof Date) return taken(isNaN(object) ? String(object) : object.toISOString());
    if (object instanceof RegExp) return taken(String(object));
    const name = nameOf(object);
    if (Array.isArray(object) || (ArrayBuffer.isView(object) && object.length !== undefined)) {
      reserve(object.length);
      return enclosed(Array.isArray(object) ? '' : name, '[', Array.from(object, show), ']');
    }
    if (object instanceof Map || object instanceof Set) reserve(object.size);
    if (object instanceof Set) return enclosed(`${name}(${object.size})`, '{', Array.from(object, show), '}');
    if (PAIRS.some((type) => object instanceof type)) {
      const parts = Array.from(object, ([key, each]) => `${show(key)} => ${show(each)}`);
      return enclosed(`${name}(${parts.length})`, '{', parts, '}');
    }
    return enclosed(name, '{', propertiesOf(object), '}');
  }

  function show(each) {
    if (typeof each === 'string') {
      reserve(each.length);
      return taken(JSON.stringify(each));
    }
    if (typeof each === 'bigint') return taken(`${each}n`);
    if (typeof each === 'function') return taken(`[Function${each.name && `: ${each.name}`}]`);
    if (typeof each !== 'object' || each === null) return taken(Object.is(each, -0) ? '-0' : String(each));
    if (above.has(each)) return '<Circular>';
    if (above.size === LEVELS) throw new Excess(`more than ${LEVELS} levels`);
    if (!objects--) throw new Excess(`more than ${OBJECTS} objects`);
    above.add(each);
    const text = contentOf(each);
    above.delete(each);
    return text;
  }

  return show(value);
}

function printable(value) {
  if (typeof value === 'string') return value.length > CHARACTERS ? value.slice(0, CHARACTERS) : value;
  if (value instanceof Error) return svcDescribe(value);
  if ((typeof value !== 'object' && typeof value !== 'function') || value instanceof Promise) return value;
  try {
    return inspected(value);
  } catch (error) {
    return error instanceof Excess ? `[an object with ${error.message}]` : '[an object that cannot be shown]';
  }
}

function converted(kind, value) {
  if (kind === 'c') return '';
  if (kind === 's') return String(printable(value));
  if (kind === 'o' || kind === 'O' || kind === 'j') return typeof value === 'string' ? JSON.stringify(value) : String(printable(value));
  if (typeof value === 'bigint') return `${value}n`;
  if (typeof value === 'symbol') return 'NaN';
  return String(kind === 'd' ? Number(value) : kind === 'i' ? parseInt(value, 10) : parseFloat(value));
}

/** Return the values of a call whose first one may have format specifiers. */
function formatted([first, ...values]) {
  if (typeof first !== 'string' || !values.length) return [first, ...values].map(printable);
  const text = printable(first).replace(/%([sdifoOjc%])/g, (all, kind) => {
    if (kind === '%') return '%';
    return values.length ? converted(kind, values.shift()) : all;
  });
  return [text, ...values.map(printable)];
}

for (const name of FORMATTED) {
  const print = console[name].bind(console);
  console[name] = (...values) => print(...(values.length ? formatted(values) : []));
}
for (const name of LISTED) {
  const print = console[name].bind(console);
  console[name] = (...values) => print(...values.map(printable));
}
console.assert = (condition, ...values) => {
  if (condition) return;
  if (typeof values[0] === 'string') values[0] = `Assertion failed: ${values[0]}`;
  else values.unshift('Assertion failed');
  console.error(...values);
};
