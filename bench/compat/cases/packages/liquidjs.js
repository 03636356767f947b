// liquidjs
import { Liquid } from 'liquidjs';
import { checks } from '../checks.js';

const engine = new Liquid();

export default checks({
  'template': () => engine.parseAndRender('{% for i in (1..3) %}{{ i | times: 2 }},{% endfor %}{{ name | capitalize }}', { name: 'ada' }),
  'date': () => engine.parseAndRender('{{ "2026-03-01T10:00:00Z" | date: "%Y-%m-%d", 0 }}'),
  'filters': () => engine.parseAndRender('{{ items | sort | join: "-" }}{{ "a<b" | escape }}', { items: [3, 1, 2] }),
});
