// rfdc
import rfdc from 'rfdc';
import { checks } from '../checks.js';

export default checks({
  'clone': () => { const source = { a: [1, { b: new Date(0) }] }; const copy = rfdc()(source); copy.a[1].b = 1; return [source, copy]; },
});
