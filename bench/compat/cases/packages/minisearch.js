// minisearch
import MiniSearch from 'minisearch';
import { checks } from '../checks.js';

const index = new MiniSearch({ fields: ['title', 'text'], storeFields: ['title'] });
index.addAll([{ id: 1, title: 'Green tea', text: 'a warm drink' }, { id: 2, title: 'Kaffee für Ü', text: 'a strong drink' }]);

export default checks({
  'search': () => index.search('drnk', { fuzzy: 0.3 }).map(({ id, title }) => [id, title]),
  'prefix': () => index.search('kaf', { prefix: true }).map(({ id, score }) => [id, Math.round(score * 1000)]),
  'suggest': () => index.autoSuggest('war').map(({ suggestion }) => suggestion),
});
