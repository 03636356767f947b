// handlebars
import Handlebars from 'handlebars';
import { checks } from '../checks.js';

export default checks({
  'template': () => Handlebars.compile('{{#each items}}{{@index}}: {{name}}{{#if done}} done{{else}} open{{/if}}\n{{/each}}')({
    items: [{ name: '<a>', done: true }, { name: 'b' }],
  }),
  'helpers and partials': () => {
    const own = Handlebars.create();
    own.registerHelper('loud', (value) => value.toUpperCase());
    own.registerPartial('note', '[{{loud text}}]');
    return own.compile('{{> note text="tea"}}{{{raw}}}')({ raw: '<b>' });
  },
  'precompile': () => typeof Handlebars.precompile('{{a}}'),
});
