// cheerio
import * as cheerio from 'cheerio';
import { checks } from '../checks.js';

export default checks({
  'select': () => {
    const $ = cheerio.load('<ul id="l"><li class="a">1</li><li>ü</li></ul><a href="/b">c</a>');
    return [$('#l > li:nth-child(2)').text(), $('a').attr('href'), $('li').map((_, each) => $(each).text()).get()];
  },
  'change': () => {
    const $ = cheerio.load('<p>a</p>', null, false);
    $('p').addClass('b').append('<i>c</i>').attr('title', '"');
    return $.html();
  },
});
