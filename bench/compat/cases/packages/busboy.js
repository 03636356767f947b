// busboy
import busboy from 'busboy';
import { checks } from '../checks.js';

const FORM = `--x
content-disposition: form-data; name="a"

ü
--x
content-disposition: form-data; name="f"; filename="t.txt"
content-type: text/plain

tea
--x--
`;

export default checks({
  'fields and files': () => new Promise((resolve, reject) => {
    const found = [];
    const parser = busboy({ headers: { 'content-type': 'multipart/form-data; boundary=x' } });
    parser.on('field', (name, value) => found.push([name, value]));
    parser.on('file', (name, stream, { filename, mimeType }) => {
      stream.on('data', (data) => found.push([name, filename, mimeType, data.toString('latin1')]));
    });
    parser.on('error', reject);
    parser.on('close', () => resolve(found));
    parser.end(Buffer.from(FORM.replaceAll('\n', '\r\n')));
  }),
});
