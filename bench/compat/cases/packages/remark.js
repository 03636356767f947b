// unified, remark-parse, remark-rehype, rehype-stringify
import rehypeStringify from 'rehype-stringify';
import remarkParse from 'remark-parse';
import remarkRehype from 'remark-rehype';
import { unified } from 'unified';
import { checks } from '../checks.js';

export default checks({
  'document': async () => String(await unified().use(remarkParse).use(remarkRehype).use(rehypeStringify).process('# Tea ü\n\n- *a*\n- **b** `c`\n\n> [d](e "f")\n')),
  'tree': () => unified().use(remarkParse).parse('a **b**').children[0].children.map(({ type }) => type),
});
