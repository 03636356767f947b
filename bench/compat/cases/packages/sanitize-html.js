// sanitize-html
import sanitize from 'sanitize-html';
import { checks } from '../checks.js';

export default checks({
  'default': () => sanitize('<p onclick="x()">a<script>alert(1)</script><a href="javascript:x">b</a><a href="https://a.example">c</a></p>'),
  'options': () => sanitize('<img src="a.png" onerror="x"><b style="color: red; position: fixed">c</b>', {
    allowedTags: ['b', 'img'], allowedAttributes: { b: ['style'], img: ['src'] }, allowedStyles: { '*': { color: [/^red$/] } },
  }),
});
