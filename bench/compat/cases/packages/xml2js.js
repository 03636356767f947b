// xml2js
import xml2js from 'xml2js';
import { checks } from '../checks.js';

export default checks({
  'parse': async () => [await xml2js.parseStringPromise('<a b="1"><c>x</c><c>y</c></a>'), new xml2js.Builder({ headless: true }).buildObject({ a: { b: ['1', '2'] } })],
});
