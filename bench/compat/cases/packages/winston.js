// winston
import winston from 'winston';
import { checks } from '../checks.js';

export default checks({
  'levels and formats': () => {
    const lines = [];
    const { combine, printf, splat } = winston.format;
    const format = combine(splat(), printf(({ level, message }) => `${level}: ${message}`));
    const info = format.transform({ level: 'info', message: 'tea %s', [Symbol.for('level')]: 'info', [Symbol.for('splat')]: ['for Ann'] }, {});
    lines.push(info[Symbol.for('message')]);
    return [lines, Object.keys(winston.config.npm.levels)];
  },
});
