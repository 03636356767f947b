// The module 'svc:intl-data': polyfills of Intl and the data of the locales that a bundle names.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const CONSTRUCTORS = ['Collator', 'DateTimeFormat', 'ListFormat', 'NumberFormat', 'PluralRules', 'RelativeTimeFormat', 'Segmenter'];
const USES = {
  Collator: /\.localeCompare\([^()]+,/,
  DateTimeFormat: /\.toLocale(?:Date|Time)?String\(\s*[^)\s]/,
  NumberFormat: /\.toLocaleString\(\s*[^)\s]/,
};
const LOCALE = /["'`]([a-z]{2,3}-(?:[A-Z][a-z]{3}-)?[A-Z]{2}|[a-z]{2})["'`]/g;
/** Languages whose code is a usual word or an element of HTML: only with a region they are locales. */
const WORDS = new Set(['am', 'as', 'be', 'br', 'dl', 'dt', 'hr', 'id', 'is', 'my', 'no', 'or', 'rm', 'so', 'td', 'th', 'to', 'tr']);
const ARGUMENT = /(?:Intl\.\w+|\.toLocale\w*String|\.localeCompare)\([^()]*?\[?["'`]([a-z]{2,3})["'`]/g;
const FILE = /^\s*\/\/ (.+\.\w+)$/m;
/** Skeletons of patterns that are omitted: flexible day periods, quarters and weeks. Each costs time at the first use. */
const OMITTED = /[BQwW]/;

/** Return what of Intl the code uses. */
export function intlUses(code) {
  return CONSTRUCTORS.filter((name) => new RegExp(`\\bIntl\\.${name}\\b`).test(code) || USES[name]?.test(code));
}

/** Return the locales that the code names: in the user's own files, or as an argument of Intl anywhere. */
export function intlLocales(code) {
  const [, ...files] = code.split(FILE);
  const own = files.filter((_, index) => index % 2 && !files[index - 1].includes('node_modules')).join('\n');
  const names = [...own.matchAll(LOCALE)].map(([, name]) => name).filter((name) => !WORDS.has(name));
  for (const [, name] of code.matchAll(ARGUMENT)) names.push(name);
  const named = names.flatMap((name) => [name.split('-')[0], name]).sort();
  return [...new Set(['en', ...named])]; // the first is the default
}

/** Return the text of the module. `folder` has the packages. */
export function intlData(folder, uses, named) {
  const file = (name, locale) => join(folder, 'node_modules/@formatjs', `intl-${name}`, 'locale-data', `${locale}.js`);
  const locales = named.filter((locale) => existsSync(file('numberformat', locale)));
  const withData = (name) => locales.filter((locale) => existsSync(file(name, locale)));
  const imports = (name) => [
    `require('@formatjs/intl-${name}/polyfill-force.js');`,
    ...withData(name).map((locale) => `require('@formatjs/intl-${name}/locale-data/${locale}.js');`),
  ].join('\n');
  const dates = withData('datetimeformat').map((locale) => {
    const text = readFileSync(file('datetimeformat', locale), 'utf8');
    const entry = JSON.parse(JSON.parse(text.slice(text.indexOf('JSON.parse(') + 'JSON.parse('.length, text.lastIndexOf('"') + 1)));
    const { intervalFormats: { intervalFormatFallback }, formats } = entry.data;
    const short = ([skeleton]) => !OMITTED.test(skeleton);
    entry.data.intervalFormats = { intervalFormatFallback };
    entry.data.formats = { gregory: Object.fromEntries(Object.entries(formats.gregory).filter(short)) };
    return `Intl.DateTimeFormat.__addLocaleData(JSON.parse(${JSON.stringify(JSON.stringify(entry))}));`;
  });
  const loaders = {
    DateTimeFormat: `require('@formatjs/intl-datetimeformat/polyfill-force.js');\n${dates.join('\n')}`,
    ListFormat: imports('listformat'),
    NumberFormat: imports('numberformat'),
    PluralRules: imports('pluralrules'),
    RelativeTimeFormat: imports('relativetimeformat'),
    Segmenter: `require('@formatjs/intl-segmenter/polyfill-force.js');`,
    timeZones: `require('@formatjs/intl-datetimeformat/add-golden-tz.js');`,
  };
  const needs = new Set([...uses, 'NumberFormat', 'PluralRules', ...(uses.includes('DateTimeFormat') ? ['timeZones'] : [])]);
  const functions = Object.entries(loaders).filter(([name]) => needs.has(name)).map(([name, body]) => `${name}() {\n${body}\n},`);
  return `export const uses = ${JSON.stringify(uses)}, locales = ${JSON.stringify(locales)};\nexport const load = {\n${functions.join('\n')}\n};\n`;
}
