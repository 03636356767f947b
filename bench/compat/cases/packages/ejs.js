// ejs
import ejs from 'ejs';
import { checks } from '../checks.js';

export default checks({
  'template': () => ejs.render('<% for (const item of items) { %><li><%= item %></li><% } %><%- raw %>', { items: ['a < b', 1], raw: '<b>' }),
  'compile': () => ejs.compile('<%= user.name %>', { strict: false })({ user: { name: 'Ada' } }),
  'async': () => ejs.render('<%= await value %>', { value: Promise.resolve('late') }, { async: true }),
});
