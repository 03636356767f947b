// markdown-it
import MarkdownIt from 'markdown-it';
import { checks } from '../checks.js';

const text = '# Title\n\n- a\n- **b** „c“\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nhttps://a.example/ü and <b>x</b> ("quoted")\n';

export default checks({
  'document': () => new MarkdownIt().render(text),
  'options': () => new MarkdownIt({ html: true, linkify: true, typographer: true }).render(text),
  'tokens': () => new MarkdownIt().parse('a *b*', {}).map(({ type }) => type),
});
