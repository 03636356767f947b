// gray-matter
import matter from 'gray-matter';
import { checks } from '../checks.js';

export default checks({
  'front matter': () => { const { data, content } = matter('---\ntitle: Tea\ntags: [a, b]\n---\n# Hi\n'); return [data, content]; },
});
