// xss
import xss from 'xss';
import { checks } from '../checks.js';

export default checks({
  'filter': () => xss('<a href="javascript:x()" onclick=y>t</a><script>z</script><b>ok</b>'),
});
