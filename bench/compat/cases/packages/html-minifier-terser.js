// html-minifier-terser
import { minify } from 'html-minifier-terser';
import { checks } from '../checks.js';

export default checks({
  'minify': () => minify('<p title="a">  tea <!-- c -->\n</p><style> a { color : red } </style>', { removeComments: true, collapseWhitespace: true, minifyCSS: true, removeAttributeQuotes: true }),
});
