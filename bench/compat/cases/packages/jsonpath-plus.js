// jsonpath-plus
import { JSONPath } from 'jsonpath-plus';
import { checks } from '../checks.js';

export default checks({
  'paths': () => JSONPath({ path: '$.shop.teas[?(@.price < 5)].name', json: { shop: { teas: [{ name: 'a', price: 4 }, { name: 'b', price: 6 }] } } }),
});
