// he
import he from 'he';
import { checks } from '../checks.js';

export default checks({
  'encode': () => [he.encode('foo © bar ≠ baz', { useNamedReferences: true }), he.decode('foo &copy; &#x1F600;')],
});
