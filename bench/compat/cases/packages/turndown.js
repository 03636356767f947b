// turndown
import Turndown from 'turndown';
import { checks } from '../checks.js';

export default checks({
  'HTML to Markdown': () => new Turndown().turndown('<h1>Tea</h1><p>with <a href="/m">milk</a> &amp; <em>sugar</em></p>'),
});
