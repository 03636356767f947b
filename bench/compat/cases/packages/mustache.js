// mustache
import mustache from 'mustache';
import { checks } from '../checks.js';

export default checks({
  'template': () => mustache.render('{{#items}}<{{name}}>{{{raw}}}{{/items}}{{^none}}nothing{{/none}}', {
    items: [{ name: 'a & b', raw: '<i>' }, { name: 'ü' }],
  }),
  'partials': () => mustache.render('{{> note}}', { text: 'tea' }, { note: '[{{text}}]' }),
  'lambdas': () => mustache.render('{{#loud}}{{name}}{{/loud}}', { name: 'x', loud: () => (text, render) => render(text).toUpperCase() }),
});
