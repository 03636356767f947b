// negotiator
import Negotiator from 'negotiator';
import { checks } from '../checks.js';

export default checks({
  'types': () => new Negotiator({ headers: { accept: 'text/*;q=0.5, application/json' } }).mediaTypes(['text/html', 'application/json']),
});
