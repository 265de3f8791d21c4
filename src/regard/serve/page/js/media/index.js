// The media: what a model is given, each in a module of its own. No other file of the page names one.
//
// A new medium is one file here, js/media/NAME.js, that exports an object as below, and one entry in MEDIA. Its inputs
// stand on the Python side in src/regard/modalities/NAME/page.py, by the same kinds.
//
//   kinds     the kinds of inputs that it reads: ['text', 'pair']
//   takes     the words of the API for models that are given it, each with what such a model is shown first, if the
//             server has no example: { text: () => ({ kind: 'text', text: '...' }) }
//   describe(input)          in words, as a person would write it; '' where there are none
//   isBlank(input)           whether nothing was given yet, so that no model is asked; without it, never
//   address(input)           what of it stands in the address of the page, { name: text }; null where it is too large
//   restore(example, given)  the input that an address means, in the form of the model's own example
//   python(input)            the argument of model.look, as Python
//   accepts(file)            whether a file that was dropped, pasted or chosen is of this medium
//   fromFile(file, source, input)  -> promise of an input like this one, with the file in it; large ones are uploaded
//   refused                  what is told of a file that could not be read
//   control({ store, source, give, take }) -> { nodes, show(input), send() }: what stands in the input line. It calls
//             give(input, draft) with what was made, take(file) with a file; show tells it what is in force
//   axes      by the kind of an axis, how its positions are shown:
//             { one, many: words for positions; strip(store, name, axis, roles): see strip.js; lays(look, axis): whether
//               that strip lays numbers over the input itself; ticks(look, axis, then): pictures instead of names, or
//               undefined; still(store, look, facts): numbers of parts that are no positions }
//   answers   by the kind of an answer, how it is told:
//             { title, body(answer, before): nodes; top(answer): what it comes down to; list(answer): names with chances;
//               speaker: the kind of axis whose positions answer one by one; nothing(answer): whether none of them did }

import { captionMedium } from './caption.js';
import { imageMedium } from './image.js';
import { noiseMedium } from './noise.js';
import { promptMedium } from './prompt.js';
import { seriesMedium } from './series.js';
import { textMedium } from './text.js';

/** @type {Medium[]} */
export const MEDIA = [textMedium, imageMedium, captionMedium, seriesMedium, noiseMedium, promptMedium];

/** Who reads an input; before there is one, the first. */
export const mediumOf = (/** @type {Input | null | undefined} */ input) =>
  MEDIA.find((one) => input && one.kinds.includes(input.kind)) ?? MEDIA[0];

/** How the positions of an axis are shown; kinds that no medium knows (queries, latents) have no place and no order. */
export const placesOf = (/** @type {Axis} */ axis) =>
  MEDIA.flatMap((one) => (one.axes && Object.hasOwn(one.axes, axis.kind) ? [one.axes[axis.kind]] : []))[0] ?? null;

/** A strip of the positions of an axis: over the input, where it can be laid over it, else as tokens. */
export function stripOf(/** @type {LookLike} */ look, /** @type {Axis} */ axis) {
  const places = placesOf(axis);
  return places?.lays(look, axis) ? places.strip : textMedium.axes.text.strip;
}

/** How an answer is told; one of an unknown kind is nothing. */
export const formOf = (/** @type {Answer} */ answer) =>
  MEDIA.flatMap((one) => (one.answers && Object.hasOwn(one.answers, answer.kind) ? [one.answers[answer.kind]] : []))[0] ??
  null;

/** What a model is shown first: its own example, or something of what it takes. */
export function exampleOf(/** @type {ModelRow} */ model) {
  if (model.example) return model.example;
  const own = MEDIA.find((one) => Object.hasOwn(one.takes, model.takes)) ?? MEDIA[0];
  return (own.takes[model.takes] ?? Object.values(own.takes)[0])();
}
