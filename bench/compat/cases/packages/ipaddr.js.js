// ipaddr.js
import ipaddr from 'ipaddr.js';
import { checks } from '../checks.js';

export default checks({
  'ranges': () => [ipaddr.parse('192.168.1.1').range(), ipaddr.parse('::ffff:10.0.0.1').toIPv4Address().toString(), ipaddr.parse('10.1.2.3').match(ipaddr.parseCIDR('10.0.0.0/8'))],
});
