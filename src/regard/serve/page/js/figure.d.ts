// The types of figure.js, for the type checker alone.
type Figure = Matrix & { colours: Colours; title: string; note: string };
export function mapFigure(facts: Figure): Promise<string>;
export function linesFigure(facts: Figure): string;
export function matrixText(matrix: Matrix): string;
export function rasterise(text: string, density?: number): Promise<Blob>;
