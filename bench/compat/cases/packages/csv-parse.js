// csv-parse
import { parse } from 'csv-parse/sync';
import { checks } from '../checks.js';

export default checks({
  'records': () => parse('a,b\n1,"x, ""y"""\n', { columns: true }),
  'casts': () => parse('1;ü;true\n', { delimiter: ';', cast: true }),
  'error': () => {
    try {
      return parse('a,b\n1\n');
    } catch (error) {
      return error.code;
    }
  },
});
