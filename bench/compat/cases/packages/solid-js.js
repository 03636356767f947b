// solid-js
import { createMemo, createRoot, createSignal } from 'solid-js';
import { createComponent, escape, renderToString, renderToStringAsync, ssr } from 'solid-js/web';
import { checks } from '../checks.js';

const template = ['<h1>', '</h1>'];

function Title(props) {
  return ssr(template, escape(props.text));
}

export default checks({
  'signals': () =>
    createRoot((dispose) => {
      const [count, setCount] = createSignal(2);
      const double = createMemo(() => count() * 2);
      const before = double();
      setCount(3);
      dispose();
      return [before, count()];
    }),
  'render': () => renderToString(() => createComponent(Title, { text: 'a < b' })),
  'render async': () => renderToStringAsync(() => createComponent(Title, { text: 'Tea' })),
});
