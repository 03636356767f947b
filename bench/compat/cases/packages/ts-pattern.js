// ts-pattern
import { match, P } from 'ts-pattern';
import { checks } from '../checks.js';

export default checks({
  'match': () => match({ type: 'ok', data: [1, 'a'] }).with({ type: 'ok', data: [P.number, P.select()] }, (text) => text).otherwise(() => 'none'),
});
