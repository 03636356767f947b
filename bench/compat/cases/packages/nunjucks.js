// nunjucks
import nunjucks from 'nunjucks';
import { checks } from '../checks.js';

export default checks({
  'template': () => nunjucks.renderString('{% for item in items %}{{ loop.index }}{{ item | upper }}{% endfor %}{{ "<" }}', { items: ['a', 'ü'] }),
  'macro': () => nunjucks.renderString('{% macro f(a, b=2) %}{{ a + b }}{% endmacro %}{{ f(1) }}{{ f(1, 1) }}', {}),
});
