// change-case
import * as changeCase from 'change-case';
import { checks } from '../checks.js';

export default checks({
  'cases': () => [changeCase.camelCase('foo bar-baz'), changeCase.snakeCase('fooBarÜber'), changeCase.pascalCase('ärger is here'), changeCase.kebabCase('HTTPServer2')],
});
