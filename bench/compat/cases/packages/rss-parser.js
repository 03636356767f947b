// rss-parser
import Parser from 'rss-parser';
import { checks } from '../checks.js';

const FEED = `<?xml version="1.0"?><rss version="2.0"><channel><title>News &amp; tea</title>
<item><title>One</title><link>https://a.example/1</link><pubDate>Sat, 28 Nov 2026 10:00:00 GMT</pubDate></item>
</channel></rss>`;

export default checks({
  'parse a text': async () => {
    const { title, items } = await new Parser().parseString(FEED);
    return [title, items.map(({ title, link, isoDate }) => [title, link, isoDate])];
  },
});
