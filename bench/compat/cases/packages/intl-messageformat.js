// intl-messageformat
import { IntlMessageFormat } from 'intl-messageformat';
import { checks } from '../checks.js';

export default checks({
  'plural': () => [0, 1, 5].map((n) => new IntlMessageFormat('{n, plural, =0 {none} one {# item} other {# items}}', 'en').format({ n })),
  'select': () => new IntlMessageFormat('{who, select, a {A} other {else}}', 'en').format({ who: 'b' }),
  'number and date': () => new IntlMessageFormat('{n, number} on {at, date, medium}', 'de').format({ n: 1234.5, at: new Date(Date.UTC(2026, 2, 1, 12)) }),
});
