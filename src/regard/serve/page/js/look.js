// The component: everything that looks at one input. The page, the stand-alone file and the notebook all mount this.

import { element } from './dom.js';
import { analysis } from './analysis.js';
import { answerView } from './answer.js';
import { arithmetic } from './arithmetic.js';
import { headGrid } from './grid.js';
import { interveneStrip } from './intervene.js';
import { sentenceView } from './sentence.js';
import { stage } from './stage.js';

export const PARTS = ['answer', 'sentence', 'heads', 'stage', 'cell', 'intervene', 'analysis'];

/** Put the component into `root`, inside an element of class `regard`; `parts` says which of its views are wanted. */
export function mountLook(root, store, source, parts = PARTS) {
  const wanted = (name, make) => (parts.includes(name) ? [make(store, source)] : []);
  root.append(
    element('div', { class: 'reading' }, wanted('sentence', sentenceView), wanted('answer', answerView)),
    element('div', { class: 'bench' }, wanted('heads', headGrid), wanted('stage', stage), wanted('cell', arithmetic)),
    element('div', { class: 'pairs' }, wanted('intervene', interveneStrip), wanted('analysis', analysis)),
  );
}
