// Intl, on the polyfills of FormatJS. Each is evaluated at its first use in dev builds, and before the snapshot of a
// deploy build. Collator is svc's own: it orders by letters, then accents, then case.
import 'unorm';
import { load, locales, uses } from 'svc:intl-data';

const DATES = ['toLocaleString', 'toLocaleDateString', 'toLocaleTimeString'];
const SPECIMEN = { timeZone: 'UTC', year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit' };

function define(target, name, value) {
  Object.defineProperty(target, name, { value, writable: true, configurable: true });
}

function part(text, index) {
  if (index === 0) return text.toLowerCase();
  if (text.length === 4 && /^[a-z]/i.test(text)) return text[0].toUpperCase() + text.slice(1).toLowerCase();
  return text.length === 2 ? text.toUpperCase() : text.toLowerCase();
}

function canonical(tag) {
  if (!/^[a-z]{2,8}(?:-[a-z\d]{1,8})*$/i.test(tag)) throw new RangeError(`Intl: ${JSON.stringify(tag)} is not a language tag`);
  const [base, ...extensions] = tag.split(/(?=-[a-z\d]-)/i);
  return base.split('-').map(part).join('-') + extensions.join('').toLowerCase();
}

function getCanonicalLocales(tags = []) {
  return [...new Set((typeof tags === 'string' ? [tags] : [...tags]).map((tag) => canonical(String(tag))))];
}

class Locale {
  constructor(tag, options = {}) {
    this.baseName = canonical(String(tag)).split(/-[a-z\d]-/)[0];
    const [language, ...parts] = this.baseName.split('-');
    const script = parts.find((each) => each.length === 4), region = parts.find((each) => /^(?:[A-Z]{2}|\d{3})$/.test(each));
    Object.assign(this, { language, script, region, numeric: false }, options);
  }
  maximize() { return this; }
  minimize() { return this; }
  toString() { return this.baseName; }
}

const accented = (text) => text.normalize('NFD').toLowerCase();
const plain = (text) => accented(text).replace(/[\u0300-\u036f]/g, '');
/** Return the class of a character in the order: spaces and signs, digits, letters. */
const rank = (character) => (/[\d]/.test(character) ? 1 : character.toLowerCase() !== character.toUpperCase() || character > '\u00bf' ? 2 : 0);

function compareCharacters(a, b) {
  const left = Array.from(a), right = Array.from(b);
  for (let at = 0; at < left.length && at < right.length; at++) {
    const order = rank(left[at]) - rank(right[at]) || (left[at] < right[at] ? -1 : left[at] > right[at] ? 1 : 0);
    if (order) return Math.sign(order);
  }
  return Math.sign(left.length - right.length);
}

function compareNumbers(a, b) {
  const pattern = /\d+|\D+/g, left = a.match(pattern) ?? [], right = b.match(pattern) ?? [];
  for (let at = 0; at < left.length && at < right.length; at++) {
    const bothNumbers = /^\d/.test(left[at]) && /^\d/.test(right[at]);
    const order = bothNumbers ? Math.sign(Number(left[at]) - Number(right[at])) : compareCharacters(left[at], right[at]);
    if (order) return order;
  }
  return Math.sign(left.length - right.length);
}

class Collator {
  #options;
  #compare;
  constructor(tags, options = {}) {
    const [locale = 'en'] = getCanonicalLocales(tags);
    const numeric = options.numeric ?? /-u(?:-\w+)*-kn(?!-false)/.test(locale);
    this.#options = {
      locale: locale.split('-u-')[0], usage: 'sort', sensitivity: 'variant', ignorePunctuation: false, collation: 'default', caseFirst: 'false',
      ...options, numeric,
    };
    const { sensitivity, ignorePunctuation, caseFirst } = this.#options;
    const order = numeric ? compareNumbers : compareCharacters;
    const upper = caseFirst === 'upper' ? 1 : -1;
    this.#compare = (a, b) => {
      let [left, right] = [String(a), String(b)];
      if (ignorePunctuation) [left, right] = [left, right].map((text) => text.replace(/[\s!-/:-@[-`{-~]/g, ''));
      const base = order(plain(left), plain(right));
      if (base || sensitivity === 'base') return base;
      const accents = sensitivity === 'case' ? 0 : order(accented(left), accented(right));
      if (accents || sensitivity === 'accent') return accents;
      return left === right ? 0 : left > right ? upper : -upper;
    };
  }
  static supportedLocalesOf(tags) { return getCanonicalLocales(tags); }
  get compare() { return this.#compare; }
  resolvedOptions() { return { ...this.#options }; }
}

/** Make time zones available without unpacking all of them. */
function addTimeZones(DateTimeFormat) {
  const native = DateTimeFormat.__addTZData;
  let packed;
  DateTimeFormat.__addTZData = (data) => (packed = data);
  load.timeZones();
  const zones = new Map(packed.zones.map((zone) => [zone.slice(0, zone.indexOf('|')), zone]));
  const unpacked = new Map();
  const table = new Proxy({}, {
    has: (_, name) => zones.has(name),
    ownKeys: () => [...zones.keys()],
    getOwnPropertyDescriptor: (_, name) => (zones.has(name) ? { enumerable: true, configurable: true } : undefined),
    get(_, name) {
      if (zones.has(name) && !unpacked.has(name)) {
        native({ ...packed, zones: [zones.get(name)] });
        unpacked.set(name, DateTimeFormat.tzData[name]);
        DateTimeFormat.tzData = table;
      }
      return unpacked.get(name);
    },
  });
  DateTimeFormat.tzData = table;
  DateTimeFormat.__setDefaultTimeZone('UTC');
}

define(globalThis, 'Intl', {});
define(Intl, Symbol.toStringTag, 'Intl');
for (const [name, value] of Object.entries({ Collator, Locale, getCanonicalLocales })) define(Intl, name, value);
for (const name of Object.keys(load).filter((each) => each !== 'timeZones')) {
  Object.defineProperty(Intl, name, {
    configurable: true,
    get() {
      define(Intl, name, undefined);
      load[name]();
      if (name === 'DateTimeFormat') addTimeZones(Intl.DateTimeFormat);
      return Intl[name];
    },
  });
}

let collator;
define(String.prototype, 'localeCompare', function localeCompare(other, tags, options) {
  collator ??= new Collator();
  return (tags === undefined && options === undefined ? collator : new Collator(tags, options)).compare(this, other);
});
define(Number.prototype, 'toLocaleString', function toLocaleString(tags, options) {
  return new Intl.NumberFormat(tags, options).format(Number(this));
});
if (load.DateTimeFormat) {
  for (const name of DATES) {
    define(Date.prototype, name, function (...args) {
      void Intl.DateTimeFormat; // replaces this method
      return Date.prototype[name].apply(this, args);
    });
  }
}

if (typeof SVC_SNAPSHOT !== 'undefined') {
  for (const locale of locales) {
    for (const name of uses) new Intl[name](locale, name === 'DateTimeFormat' ? SPECIMEN : undefined);
  }
}
