// postcss, autoprefixer
import postcss from 'postcss';
import autoprefixer from 'autoprefixer';
import { checks } from '../checks.js';

export default checks({
  'prefix': async () => (await postcss([autoprefixer({ overrideBrowserslist: ['Chrome 30'] })]).process('a { display: flex }', { from: undefined })).css,
});
