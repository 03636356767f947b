// @supabase/supabase-js
import { createClient } from '@supabase/supabase-js';
import { checks } from '../checks.js';

const options = { auth: { persistSession: false }, realtime: { transport: class {} } };

export default checks({
  'query': async (env) => {
    const { data, error } = await createClient(env.UPSTREAM, 'key', options).from('notes').select('*').eq('id', 1);
    return [data, error];
  },
});
