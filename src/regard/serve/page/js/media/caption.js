// A picture and a sentence about it: the picture is given as any other, the sentence is written by the model.

import { blankPicture, isImageFile, NO_PICTURE, pictureAddress, pictureControl, pictureFrom, pictureIn } from './image.js';

/** The same with another picture; the sentence about the old one goes. @param {Picture} image @returns {Input} */
const captioned = (image) => ({ kind: 'caption', image });

/** @type {Medium} */
export const captionMedium = {
  kinds: ['caption'],
  takes: { 'image+text': () => captioned(blankPicture()) },
  describe: () => '',
  address: pictureAddress,
  restore: (example, given) => {
    const picture = pictureIn(given);
    return picture ? captioned(picture) : example;
  },
  python: () => '"picture.png"',
  accepts: isImageFile,
  fromFile: async (file, source) => captioned(await pictureFrom(file, source)),
  refused: NO_PICTURE,
  control: (facts) => pictureControl(facts, captioned),
};
