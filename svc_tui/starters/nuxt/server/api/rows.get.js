import { tables } from '@svc/guest';

export default defineEventHandler(() => tables.query`select * from "__TABLE__" order by id desc limit 100`);
