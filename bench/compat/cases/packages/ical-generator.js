// ical-generator
import ical from 'ical-generator';
import { checks } from '../checks.js';

export default checks({
  'event': () => { const calendar = ical({ name: 'Tea' }); calendar.createEvent({ id: 'a', stamp: new Date(0), start: new Date(1e12), end: new Date(1e12 + 36e5), summary: 'Tea, hot' }); return calendar.toString(); },
});
