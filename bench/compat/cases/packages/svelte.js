// svelte
import * as $ from 'svelte/internal/server';
import { render } from 'svelte/server';
import { compile } from 'svelte/compiler';
import { checks } from '../checks.js';

// The output of the compiler for a component of a heading and a list.
function Page($$renderer, $$props) {
  $$renderer.component(($$renderer) => {
    const { items } = $$props;
    $.head('page', $$renderer, ($$renderer) => $$renderer.title(($$renderer) => $$renderer.push('<title>Tea</title>')));
    $$renderer.push(`<h1${$.attr('title', '<"')}>${$.escape('a < b')}</h1><ul>`);
    for (const item of $.ensure_array_like(items)) $$renderer.push(`<li>${$.escape(item)}</li>`);
    $$renderer.push('</ul>');
  });
}

export default checks({
  'render': () => {
    const { body, head } = render(Page, { props: { items: [1, 'ü'] } });
    return [body, head.includes('<title>Tea</title>')];
  },
  'compile': () => {
    const { js } = compile('<script>let { name } = $props();</script><h1>Hello {name}!</h1>', { generate: 'server' });
    return [js.code.includes('$.escape(name)'), js.code.length > 100];
  },
});
