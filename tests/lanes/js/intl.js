// Uses of Intl; test_intl.py compares the results.
const date = new Date(Date.UTC(2026, 6, 4, 15, 6, 7));
const units = { year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit' };

const results = {
  currency: () => ['en-US', 'de-DE'].map((locale) => new Intl.NumberFormat(locale, { style: 'currency', currency: 'EUR' }).format(1234.5)),
  numbers: () => [(0.256).toLocaleString('en-US', { style: 'percent' }), (1234.5).toLocaleString(), new Intl.NumberFormat('de', { notation: 'compact' }).format(1.2e6)],
  plurals: () => [new Intl.PluralRules('en').select(1), new Intl.PluralRules('en', { type: 'ordinal' }).select(2), new Intl.PluralRules('pl').select(3)],
  zones: () => [
    new Intl.DateTimeFormat('en-US', { dateStyle: 'full', timeStyle: 'long', timeZone: 'America/New_York' }).format(date),
    new Intl.DateTimeFormat('en-US', { ...units, hourCycle: 'h23', timeZone: 'Europe/Berlin' }).formatToParts(date).map(({ value }) => value).join(''),
    new Intl.DateTimeFormat().resolvedOptions().timeZone, new Intl.DateTimeFormat().resolvedOptions().locale,
  ],
  dates: () => [date.toLocaleDateString('de-DE', { weekday: 'long', day: 'numeric', month: 'long' }), date.toLocaleDateString(), date.toLocaleTimeString('en-US')],
  unknown() {
    try {
      return new Intl.DateTimeFormat('en', { timeZone: 'Mars/Olympus' }).format(date);
    } catch (error) {
      return error.name;
    }
  },
  relative: () => new Intl.RelativeTimeFormat('en', { numeric: 'auto' }).format(-1, 'day'),
  list: () => new Intl.ListFormat('en', { type: 'conjunction' }).format(['a', 'b', 'c']),
  order: () => [
    ['a10', 'a2', 'B1'].sort(new Intl.Collator('en', { numeric: true }).compare), 'zéeEZa1-'.split('').sort((a, b) => a.localeCompare(b)).join(''),
    'é'.localeCompare('e', 'en', { sensitivity: 'base' }), 'a'.localeCompare('a'),
  ],
  segments: () => [
    [...new Intl.Segmenter('en', { granularity: 'grapheme' }).segment('e\u0301👨‍👩‍👧x')].map(({ segment }) => segment),
    [...new Intl.Segmenter('en', { granularity: 'word' }).segment('Hello, world')].filter(({ isWordLike }) => isWordLike).map(({ segment }) => segment),
  ],
  locales: () => [Intl.getCanonicalLocales('EN-us'), Intl.DateTimeFormat.supportedLocalesOf(['de', 'xx']), new Intl.Locale('zh-hant-TW').script],
};

export default {
  fetch: () => Response.json(Object.fromEntries(Object.entries(results).map(([name, result]) => [name, result()]))),
};
