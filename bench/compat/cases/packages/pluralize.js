// pluralize
import pluralize from 'pluralize';
import { checks } from '../checks.js';

export default checks({
  'plurals': () => [pluralize('tea', 2, true), pluralize.singular('people')],
});
