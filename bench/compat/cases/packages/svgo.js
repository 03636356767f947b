// svgo
import { optimize } from 'svgo/browser';
import { checks } from '../checks.js';

export default checks({
  'optimize': () => optimize('<svg xmlns="http://www.w3.org/2000/svg"><!-- c --><g><rect x="1.00001" width="10" height="10" fill="#ff0000"/></g></svg>').data,
});
