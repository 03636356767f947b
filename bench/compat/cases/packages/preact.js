// preact, preact-render-to-string
import { createContext, Fragment, h } from 'preact';
import { renderToString } from 'preact-render-to-string';
import { useContext, useMemo, useState } from 'preact/hooks';
import { checks } from '../checks.js';

const Theme = createContext('light');

function List({ items }) {
  const [count] = useState(items.length);
  const total = useMemo(() => items.reduce((sum, item) => sum + item, 0), items);
  return h(Fragment, null, h('p', { class: useContext(Theme), 'data-a': '<&"' }, count, ' of ', total), items.map((item) => h('li', { key: item }, item)));
}

export default checks({
  'render': () => renderToString(h('ul', { style: { color: 'red' } }, h(List, { items: [1, 2] }))),
  'context': () => renderToString(h(Theme.Provider, { value: 'dark' }, h(List, { items: [] }))),
  'markup': () => renderToString(h('div', { dangerouslySetInnerHTML: { __html: '<b>x</b>' }, hidden: true, onClick() {} })),
});
