// lit, @lit-labs/ssr
import { render } from '@lit-labs/ssr/lib/render.js';
import { collectResult } from '@lit-labs/ssr/lib/render-result.js';
import { html } from 'lit';
import { checks } from '../checks.js';

export default checks({
  'render': async () => {
    const text = await collectResult(render(html`<h1 title=${'a'}>${'a < b'}</h1>${[1, 2].map((item) => html`<li>${item}</li>`)}`));
    return text.replace(/<!--.*?-->/g, '');
  },
});
