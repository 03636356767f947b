// react, react-dom
import { createElement as h, Suspense, use, useId, useState } from 'react';
import { renderToReadableStream, renderToStaticMarkup, renderToString } from 'react-dom/server';
import { checks } from '../checks.js';

function Page({ title }) {
  const [count] = useState(3);
  return h('main', { className: 'a', style: { marginTop: 4 }, id: useId() }, h('h1', null, title), count, h('input', { disabled: true, defaultValue: 'ü' }));
}

function Late({ promise }) {
  return h('p', null, use(promise));
}

export default checks({
  'render to string': () => renderToString(h(Page, { title: '<Tea> & "more"' })),
  'static markup': () => renderToStaticMarkup(h(Page, { title: 'Tea' })),
  'stream': async () => {
    const stream = await renderToReadableStream(h(Page, { title: 'Tea' }));
    await stream.allReady;
    return new Response(stream).text();
  },
  'suspense': async () => {
    const promise = new Promise((resolve) => setTimeout(resolve, 5, 'late'));
    const stream = await renderToReadableStream(h(Suspense, { fallback: 'wait' }, h(Late, { promise })));
    return (await new Response(stream).text()).includes('<p>late</p>');
  },
  'error': async () => {
    const Broken = () => {
      throw new RangeError('no');
    };
    return renderToReadableStream(h(Broken), { onError() {} }).catch((error) => error.message);
  },
});
