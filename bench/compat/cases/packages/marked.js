// marked
import { Marked, marked } from 'marked';
import { checks } from '../checks.js';

const text = `# Title ü

- [x] done
- *one* **two** ~~three~~ \`code\`

| a | b |
|---|:-:|
| 1 | 2 |

\`\`\`js
let a = 1 < 2;
\`\`\`

> quote with https://a.example/ and [link](b.html "t")
`;

export default checks({
  'document': () => marked.parse(text),
  'inline': () => marked.parseInline('**„Zitat“**, _a_ <b>c</b>'),
  'tokens': () => marked.lexer('# a\n\nb *c*').map(({ type, raw }) => [type, raw]),
  'own renderer': () => new Marked({ renderer: { heading: ({ text, depth }) => `<h${depth} id>${text}</h${depth}>` } }).parse('## b'),
});
