// highlight.js
import highlighter from 'highlight.js';
import { checks } from '../checks.js';

export default checks({
  'JavaScript': () => highlighter.highlight('const a = `b ${1 + 2}`; // ü', { language: 'javascript' }).value,
  'Python': () => highlighter.highlight('def f(x: int) -> str:\n    return f"{x}"', { language: 'python' }).value,
  'detection': () => highlighter.highlightAuto('{"a": [1, true, null]}', ['json', 'python']).language,
  'languages': () => highlighter.listLanguages().length,
});
