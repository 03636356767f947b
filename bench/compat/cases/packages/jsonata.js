// jsonata
import jsonata from 'jsonata';
import { checks } from '../checks.js';

export default checks({
  'evaluate': () => jsonata('$sum(items.(price * n))').evaluate({ items: [{ price: 2, n: 3 }, { price: 1.5, n: 2 }] }),
});
