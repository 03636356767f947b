// color
import Color from 'color';
import { checks } from '../checks.js';

export default checks({
  'convert': () => [Color('#7743ce').alpha(0.5).lighten(0.5).hsl().string(), Color('tomato').isLight()],
});
