// vue, @vue/server-renderer
import { renderToString, renderToWebStream } from '@vue/server-renderer';
import { computed, createSSRApp, h, ref } from 'vue';
import { checks } from '../checks.js';

const List = {
  props: ['items'],
  setup(props) {
    const count = ref(props.items.length);
    const text = computed(() => `${count.value} items`);
    return () => h('section', { class: ['a', { b: true }] }, [h('p', text.value), h('ul', props.items.map((item) => h('li', { key: item }, item)))]);
  },
};

export default checks({
  'render': () => renderToString(createSSRApp(List, { items: ['a < b', 'ü'] })),
  'stream': () => new Response(renderToWebStream(createSSRApp(List, { items: [1] }))).text(),
  'reactivity': () => {
    const count = ref(1);
    const double = computed(() => count.value * 2);
    count.value = 4;
    return double.value;
  },
});
