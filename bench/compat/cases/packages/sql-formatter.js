// sql-formatter
import { format } from 'sql-formatter';
import { checks } from '../checks.js';

export default checks({
  'format': () => format('select a, b from t where c = 1 and d in (1, 2)', { language: 'sqlite', keywordCase: 'upper' }),
});
