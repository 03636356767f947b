// diff
import { applyPatch, createPatch, diffWords } from 'diff';
import { checks } from '../checks.js';

export default checks({
  'patch': () => { const patch = createPatch('a.txt', 'one\ntwo\n', 'one\n2\n'); return [patch, applyPatch('one\ntwo\n', patch)]; },
  'words': () => diffWords('a big cup', 'a small cup').map(({ value, added = false }) => [value, added]),
});
