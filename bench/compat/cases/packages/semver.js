// semver
import semver from 'semver';
import { checks } from '../checks.js';

export default checks({
  'ranges': () => [semver.satisfies('1.2.9', '^1.2.3 || 3.x'), semver.maxSatisfying(['1.0.0', '1.4.0', '2.0.0'], '~1'), semver.validRange('>=1 <2-')],
  'versions': () => [semver.inc('1.2.3-rc.1', 'minor'), semver.diff('1.0.0', '1.0.1'), ['2.0.0', '1.0.0-a', '1.0.0'].sort(semver.compare)],
});
