// pug
import pug from 'pug';
import { checks } from '../checks.js';

export default checks({
  'render': () => pug.render('ul\n  each item in items\n    li= item\n', { items: ['tea', '<b>'] }),
});
