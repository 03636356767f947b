// papaparse
import Papa from 'papaparse';
import { checks } from '../checks.js';

export default checks({
  'parse': () => Papa.parse('a;b\n1;"x;y"\n', { header: true, dynamicTyping: true, skipEmptyLines: true }).data,
  'unparse': () => Papa.unparse([{ a: 1, b: 'x,"y"' }]),
  'step': () => {
    const rows = [];
    Papa.parse('1,2\n3,4', { step: ({ data }) => rows.push(data) });
    return rows;
  },
});
