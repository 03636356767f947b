// prettier
import * as babel from 'prettier/plugins/babel';
import * as estree from 'prettier/plugins/estree';
import { format } from 'prettier/standalone';
import { checks } from '../checks.js';

export default checks({
  'JavaScript': () => format('const a={b:1,c:[2,3]};function f(x){return x??a}', { parser: 'babel', plugins: [babel, estree] }),
});
