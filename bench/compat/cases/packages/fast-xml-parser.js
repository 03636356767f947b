// fast-xml-parser
import { XMLBuilder, XMLParser, XMLValidator } from 'fast-xml-parser';
import { checks } from '../checks.js';

const text = '<?xml version="1.0"?><a id="1"><b>x &amp; ü</b><b/><c><![CDATA[<d>]]></c></a>';

export default checks({
  'parse': () => new XMLParser({ ignoreAttributes: false }).parse(text),
  'build': () => new XMLBuilder({ ignoreAttributes: false }).build({ a: { '@_id': 1, b: ['x', '<y>'] } }),
  'validate': () => XMLValidator.validate('<a><b></a>').err.code,
});
