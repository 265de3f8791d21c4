// The component: everything that looks at one input. The page, the stand-alone file and the notebook all mount this.

import { element } from './dom.js';
import { analysis } from './analysis.js';
import { answerView } from './answer.js';
import { arithmetic } from './arithmetic.js';
import { headGrid } from './grid.js';
import { interveneStrip } from './intervene.js';
import { sentenceView } from './sentence.js';
import { stage } from './stage.js';
import { timeline } from './timeline.js';

export const PARTS = ['answer', 'time', 'sentence', 'heads', 'stage', 'cell', 'intervene', 'analysis'];

/** Put the component into `root`, inside an element of class `regard`; `parts` says which of its views are wanted.
    @param {HTMLElement} root @param {Store} store @param {Source} source */
export function mountLook(root, store, source, parts = PARTS) {
  /** @param {string} name @param {(store: Store, source: Source) => Node} make */
  const wanted = (name, make) => (parts.includes(name) ? [make(store, source)] : []);
  store.watch(['blank'], ({ blank }) => (root.hidden = blank));
  root.append(
    element('div', { class: 'reading' }, wanted('sentence', sentenceView), wanted('answer', answerView)),
    ...wanted('time', timeline),
    element('div', { class: 'bench' }, wanted('heads', headGrid), wanted('stage', stage), wanted('cell', arithmetic)),
    element('div', { class: 'pairs' }, wanted('intervene', interveneStrip), wanted('analysis', analysis)),
  );
}
