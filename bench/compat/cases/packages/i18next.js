// i18next
import i18next from 'i18next';
import { checks } from '../checks.js';

async function translator(lng) {
  const instance = i18next.createInstance();
  return instance.init({
    lng, fallbackLng: 'en',
    resources: {
      en: { translation: { hello: 'Hello {{name}}', item_one: '{{count}} item', item_other: '{{count}} items', price: '{{value, number(minimumFractionDigits: 2)}}' } },
      pl: { translation: { item_one: '{{count}} rzecz', item_few: '{{count}} rzeczy', item_many: '{{count}} rzeczy (wiele)' } },
    },
  });
}

export default checks({
  'interpolation': async () => (await translator('en'))('hello', { name: '<Ada>' }),
  'plurals': async () => {
    const [en, pl] = [await translator('en'), await translator('pl')];
    return [en('item', { count: 1 }), en('item', { count: 2 }), pl('item', { count: 3 }), pl('item', { count: 5 }), pl('hello', { name: 'x' })];
  },
  'numbers': async () => (await translator('en'))('price', { value: 1234.5 }),
});
