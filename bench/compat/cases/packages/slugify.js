// slugify
import slugify from 'slugify';
import { checks } from '../checks.js';

export default checks({
  'slugs': () => [slugify('Ein schöner Tee & Kaffee!'), slugify('Ünïcödé ♥ 100%', { lower: true, strict: true }), slugify('Größe', { locale: 'de' })],
});
