// fuse.js
import Fuse from 'fuse.js';
import { checks } from '../checks.js';

const books = [{ title: 'Old Man’s War' }, { title: 'The Lock Artist' }, { title: 'Größe' }];

export default checks({
  'search': () => new Fuse(books, { keys: ['title'] }).search('lok art').map(({ item }) => item.title),
  'diacritics': () => new Fuse(['résumé', 'other'], { ignoreDiacritics: true }).search('resume').map(({ item }) => item),
});
