// Two maps side by side; their difference is the large one. First: indigo. Second: ochre.
// The second is another head or site of this look, or the same place in another model, or under another mechanism.

import { headWord, labelsOf, sentenceCase, siteName, wordsFor } from './axes.js';
import { button, element, fromTo, percent, signed } from './dom.js';
import { heatMap } from './heatmap.js';
import { apartWords, differenceOf } from './loader.js';
import { formOf } from './media/index.js';
import { currentMatrix, inForce, MATRIX, scaleOf, secondWord } from './matrix.js';
import { inWords } from './source.js';

/** How far two maps of weights are apart: the share that lies elsewhere, and the cell where they differ most.
    @param {SheetLike} sheet */
function apartness(sheet) {
  const exact = sheet.exact ?? new Float32Array(1);
  let [far, sum] = [0, 0];
  exact.forEach((value, index) => {
    sum += Math.abs(value) / 2 / sheet.rows;
    if (Math.abs(value) > Math.abs(exact[far])) far = index;
  });
  return { share: sum, query: Math.floor(far / sheet.columns), key: far % sheet.columns, value: exact[far] };
}

/** @param {Store} store @param {Source} source */
export function comparison(store, source) {
  const maps = [heatMap({ label: 'first map', small: true }), heatMap({ label: 'second map', small: true })];
  const names = [element('span', { class: 'pair-name first' }), element('span', { class: 'pair-name second' })];
  const finding = element('p', { class: 'prose' });
  const ranking = element('ol', { class: 'ranking' });
  const answers = element('div', { class: 'answer-body' });
  const forced = element('p', { class: 'hint' });
  /** @type {string | null} */
  let offered = null; // the model whose list of others is shown
  const heads = element('select', {
    'aria-label': 'Second map',
    onChange: () => {
      const [site, head] = heads.value.split(' ');
      store.set({ withSite: site, withHead: head === 'mean' ? head : Number(head), other: null });
    },
  });
  const others = element('select', {
    'aria-label': 'Compare with another model or attention mechanism',
    onChange: () => chooseOther(),
  });
  const swap = button('plain', 'Swap', () => {
    const { site, head, withSite, withHead } = store.state;
    store.set({ site: withSite, head: withHead, withSite: site, withHead: head });
  });

  function chooseOther() {
    const [kind, name] = others.value.split(' ');
    store.set({ other: kind ? { [kind]: name } : null });
  }

  /** @param {string} value @param {string} text */
  const option = (value, text) => element('option', { value }, text);
  /** @param {string} label @param {Child} options */
  const group = (label, options) => element('optgroup', { label }, options);

  store.watch(['look'], ({ look }) => {
    if (!look) return;
    heads.replaceChildren(
      ...look.document.sites.map((site) =>
        group(sentenceCase(siteName(site)), [
          ...Array.from({ length: site.heads }, (_, head) => option(`${site.name} ${head}`, headWord(site, head))),
          ...(site.heads > 1 ? [option(`${site.name} mean`, headWord(site, 'mean'))] : []),
        ]),
      ),
    );
  });

  /** Asked for when a comparison is opened: the server has to see which mechanisms the weights fit under.
      @param {string} model */
  async function offer(model) {
    offered = model;
    try {
      const [models, mechanisms] = await Promise.all([source.models(), source.attentions(model)]);
      if (offered !== model) return;
      const own = models.find((one) => one.name === model);
      const alike = models.filter((one) => one.takes === own?.takes && one.name !== model);
      others.replaceChildren(
        option('', 'this model'),
        group(
          'other models',
          alike.map((one) => option(`model ${one.name}`, one.title)),
        ),
        group(
          'same weights, another attention mechanism',
          mechanisms.map((name) => option(`attention ${name}`, name)),
        ),
      );
      others.value = otherValue(store.state);
    } catch (error) {
      offered = null; // the next time
      store.set({ error: inWords(error, 'The other models cannot be listed.') });
    }
  }

  /** @param {State} facts */
  const otherValue = ({ other }) => (other ? Object.entries(other)[0].join(' ') : '');

  if (source.can.compare)
    store.watch(['model', 'view'], ({ model, view }) => {
      if (view === 'compare' && model && model !== offered) offer(model);
    });

  /** What each of two models says by itself, and whose words the maps of both are about. @param {State} state */
  function answered({ look, second, other }) {
    const told = look && second && second.other === other ? [look.document.answer, second.answer] : [];
    answers.hidden = !told.length;
    forced.hidden = !told.length || !second?.look.document.input.target;
    if (!look || !second || !told.length) return;
    const titles = [look.document.model.title, other?.model ?? other?.attention ?? ''];
    answers.replaceChildren(
      ...told.map((answer, index) => {
        const body = formOf(answer)?.body(answer, null) ?? [element('p', { class: 'hint' }, 'no answer')];
        return element('div', { class: 'answer-side' }, element('h3', {}, titles[index]), body);
      }),
    );
    forced.textContent = `The maps of both are about the words of ${titles[0]}: they are given to both models.`;
  }

  store.watch(['look', 'second', 'other'], answered);

  /** @param {State} state @param {Force} force */
  function rank(state, force) {
    const sites = state.other && state.second?.other === state.other ? state.second.sites : [];
    const all = sites.flatMap((one) => one.heads.map((pair) => ({ site: one.first, ...pair })));
    const told = all.filter((one) => one.divergence !== null); // weights below 0 are no shares, and have none
    const most = told.sort((a, b) => (b.divergence ?? 0) - (a.divergence ?? 0)).slice(0, 5);
    ranking.hidden = most.length === 0;
    ranking.replaceChildren(
      ...most.map((one) => {
        const site = force.look.at(one.site);
        const text = `${headWord(site, one.first)}: divergence ${one.divergence?.toFixed(2)} bits`;
        return element(
          'li',
          {},
          button('link', text, () => store.set({ site: one.site, head: one.first })),
        );
      }),
    );
  }

  store.watch([...MATRIX, 'colours', 'other', 'second'], (state) => {
    const force = inForce(state);
    if (state.view !== 'compare' || !force) return;
    heads.hidden = state.other !== null;
    swap.hidden = state.other !== null;
    others.hidden = !source.can.compare;
    others.value = otherValue(state);
    heads.value = `${state.withSite} ${state.withHead}`;
    rank(state, force);
    names[0].textContent = sentenceCase(headWord(force.site, force.head));
    const second = state.secondSheet;
    names[1].textContent = second ? sentenceCase(secondWord(state)) : '…';
    const shown = [{ site: force.site, look: force.look, sheet: force.sheet }];
    if (second) shown.push({ site: second.look.at(second.site), look: second.look, sheet: second.sheet });
    requestAnimationFrame(() =>
      shown.forEach(({ site, look, sheet }, index) => {
        const { axes } = look.document;
        const scale = scaleOf(site, sheet, state.contrast);
        maps[index].show({
          sheet,
          rows: labelsOf(axes[site.rows]),
          columns: labelsOf(axes[site.columns]),
          scale,
          colours: state.colours,
        });
      }),
    );
    const difference = differenceOf(state);
    if (!second) finding.textContent = 'Loading the second map…';
    else if (!difference)
      finding.textContent = `These two maps cannot be subtracted: ${apartWords(state)}. The large view shows the first.`;
    else if (!difference.exact)
      finding.textContent = 'The difference is drawn below; hover over a cell for its exact value.';
    else {
      const { share, query, key, value } = apartness(difference);
      const weights = currentMatrix(state)?.site.kind === 'weights';
      finding.replaceChildren(
        weights
          ? `On average ${percent(share, 0)} of a query’s attention differs. Largest difference: `
          : 'Largest difference: ',
        ...fromTo(wordsFor(force.rowAxis, query), wordsFor(force.columnAxis, key)),
        weights ? `, ${signed(100 * value, 0)} percentage points.` : `, ${signed(value, 2)}.`,
      );
    }
  });

  return element(
    'div',
    { class: 'comparison' },
    element(
      'div',
      { class: 'pair' },
      maps.map((map, index) => element('figure', {}, map.root, element('figcaption', {}, names[index]))),
    ),
    element(
      'div',
      { class: 'pair-text' },
      finding,
      element('div', { class: 'row' }, others, heads, swap),
      answers,
      forced,
      ranking,
      element('p', { class: 'hint' }, 'Or Shift-click a thumbnail.'),
    ),
  );
}
