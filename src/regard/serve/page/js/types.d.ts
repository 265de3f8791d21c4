// The values that the page's modules share, for the type checker alone: no browser reads this file.
// They are global, so that a comment can name them without an import.

// What the API gives -----------------------------------------------------------------------------

type Chance = [name: string, chance: number];
type Head = number | 'mean';
type Numbers = Float32Array | Float64Array | number[];
type Contrast = 'root' | 'linear';

interface Picture {
  kind: string;
  png?: string;
  upload?: string;
  width?: number;
  height?: number;
}

/** Of whatever medium: see media/index.js. */
interface Input extends Picture {
  text?: string;
  second?: string;
  source?: string;
  target?: string;
  image?: Picture;
}

type TokenChange = { kind: 'token'; axis: string; position: number };
type HeadChange = { kind: 'head'; site: string; head: number; factor: number };
type TemperatureChange = { kind: 'temperature'; site: string; value: number };
type Change = TokenChange | HeadChange | TemperatureChange;

interface Box {
  label: string;
  score: number;
  box: number[];
}

interface Answer {
  kind: string;
  text?: string;
  remark?: string; // what a reader should know of it
  labels?: Chance[];
  tokens?: Chance[] | { text: string; logp: number }[];
  places?: { token: number; tokens: Chance[] }[];
  boxes?: Box[];
  width?: number;
  height?: number;
}

interface Axis {
  kind: string;
  size: number;
  labels: string[] | null;
  grid: number[] | null;
  special: number;
}

/** What an axis must have to be laid over a picture. */
interface Gridded {
  grid: number[] | null;
  special: number;
}

interface Site {
  name: string;
  part: string;
  role: string;
  layer: number | null;
  heads: number;
  rows: string;
  columns: string;
  kind: string;
  mechanism: string;
  arithmetic: boolean;
  scale: number | null;
  calls: number;
  time?: number;
  over?: { kind: string; number: number; label: string };
}

interface Model {
  name: string;
  title: string;
  family: string;
  task: string | null;
  parameters: number;
  takes: string;
  source?: string;
  attention?: string;
}

interface ModelRow extends Model {
  source: string;
  verbs: string[];
  example?: Input;
  lectures: string[];
}

interface LookDocument {
  format: number;
  id: string;
  model: Model;
  input: Input;
  changes: Change[];
  answer: Answer;
  before: Answer | null;
  axes: Record<string, Axis>;
  sites: Site[];
  time?: { unit: string; count: number };
}

interface CellNumbers {
  weights: number[];
  weight: number;
  equation?: string;
  query?: Numbers;
  key?: Numbers;
  value?: Numbers;
  product?: number;
  scale?: number;
  bias?: number;
  score?: number;
  masked?: boolean;
  scores?: (number | null)[];
  mixed?: Numbers;
}

/** Of a cell that can be taken apart. */
type WholeCell = Required<Omit<CellNumbers, 'equation'>>;

interface Found {
  name: string;
  equation: string;
  limit: string;
  site: string;
  head?: Head;
  axis: string;
  what: string;
  unit: string;
  row: number;
  map: number[][];
  flow: number[];
  worth: (number | number[])[];
  layers: any[]; // names of layers, or of a lens what each of them says
  sites: Record<string, (number | null)[]>;
  singular: number[];
  moduli?: number[] | null;
  mass: number[];
  rank: number;
}

interface LensLayer {
  site: string;
  tokens: Chance[][];
  first?: number;
}

interface Differences {
  first: string;
  second: string;
  heads: { first: number; second: number; divergence: number | null; largest: number | null }[];
}

// What a page holds ------------------------------------------------------------------------------

interface Copy {
  values: Float32Array;
  rows: number;
  columns: number;
  level?: number;
}

type SheetLike = import('./sheet.js').Sheet;
type LookLike = import('./source.js').Look;

interface LookRequest {
  model: string | null;
  input: Input | null;
  changes: Change[];
  attention?: string;
}

interface Asked {
  site?: string;
  head?: Head;
  output?: number;
}

interface Source {
  can: { write: boolean; intervene: boolean; compare: boolean; exportPage: boolean; analyse(name: string): boolean };
  open(request: LookRequest, signal?: AbortSignal): Promise<LookLike>;
  compare(first: LookRequest, second: LookRequest, signal?: AbortSignal): Promise<Omit<Second, 'other'>>;
  models(): Promise<ModelRow[]>;
  attentions(model: string): Promise<string[]>;
  upload(blob: Blob): Promise<{ id: string }>;
}

interface Time {
  unit: string;
  count: number;
  index: number;
}

interface Spot {
  axis: string;
  position: number;
}

interface Hover {
  query: Spot | null;
  key: Spot | null;
}

interface Place {
  query: number | null;
  key: number | null;
}

interface Other {
  model?: string;
  attention?: string;
}

interface ShownSheet {
  look: LookLike;
  site: string;
  head: Head;
  sheet: SheetLike;
  other?: Other | null;
}

/** A site in its look. */
interface Placed {
  look: LookLike;
  site: Site;
}

interface OpenCell {
  look: LookLike;
  site: string;
  head: Head;
  query: number;
  key: number;
  numbers: CellNumbers;
}

/** Another model, looked at with the words that the first wrote; and what it says by itself. */
interface Second {
  look: LookLike;
  sites: Differences[];
  answer: Answer;
  other: Other;
}

interface State {
  model: string | null;
  input: Input | null;
  changes: Change[];
  draft: number;
  site: string | null;
  head: Head;
  view: string;
  query: number;
  key: number;
  time: Time | null;
  withSite: string | null;
  withHead: Head;
  other: Other | null;
  contrast: Contrast;
  overlay: boolean;
  tab: string;
  look: LookLike | null;
  second: Second | null;
  sheet: ShownSheet | null;
  secondSheet: ShownSheet | null;
  cell: OpenCell | null;
  arrived: number;
  busy: boolean;
  blank: boolean;
  choose: boolean;
  error: string;
  notice: string;
  theme: string;
  colours: Colours;
  permalink: boolean;
  opened: number | null;
  hover: Hover | null;
}

interface Store {
  state: State;
  set(patch: Partial<State>): void;
  watch(keys: (keyof State)[], run: (state: State) => unknown, options?: { now?: boolean }): () => void;
}

// What is drawn ----------------------------------------------------------------------------------

interface Ramp {
  css(place: number): string;
  words: Uint32Array;
  gradient(): string;
}

type RampName = 'weight' | 'difference' | 'overlay' | 'signs';

interface Colours extends Record<RampName, Ramp> {
  ink: string;
  soft: string;
  surface: string;
  query: string;
  key: string;
  accent: string;
  second: string;
  font: string;
}

interface Scale {
  place(value: number): number;
  ticks: number[];
  ramp: RampName;
  share?: boolean;
}

/** How numbers become light and words: see light.js. */
interface Over {
  ramp: RampName;
  word: string;
  strongest(part: Numbers): number;
  place(value: number, top: number): number;
  alpha(value: number, top: number): number;
  told(top: number, write: (value: number) => string): string;
  write(value: number): string;
}

interface Force {
  look: LookLike;
  site: Site;
  head: Head;
  sheet: SheetLike;
  rowAxis: Axis;
  columnAxis: Axis;
  query: number;
  key: number;
}

interface Matrix extends Force {
  rows: string[];
  columns: string[];
  differs: boolean;
  apart?: string;
  scale: Scale;
  name: string;
}

interface Patch {
  image: HTMLImageElement;
  x: number;
  y: number;
  width: number;
  height: number;
}

type Ticks = ((index: number) => Patch | null) | undefined;

interface ShownMap {
  sheet: SheetLike;
  rows: string[];
  columns: string[];
  scale: Scale;
  colours: Colours;
  hover?: Place | null;
  cursor?: Place | null;
  patches?: { query?: Ticks; key?: Ticks };
}

/** Where the cells of a map stand in its canvas. */
interface MapBox {
  left: number;
  top: number;
  slope: number;
  size: number;
  tall: number;
  width: number;
  height: number;
}

interface MapView {
  x: number;
  y: number;
  zoom: number;
}

interface Table {
  caption: string;
  columns: string[];
  rows: string[][];
}

/** What an analysis shows, and what it is told for it. */
interface Part {
  finding: (Node | string)[];
  plot: HTMLElement | SVGElement | string;
  table: Table;
  point?: (hover: Hover | null) => void;
  shown?: () => void;
}

interface PartFacts {
  found: Found;
  force: Force;
  asked: Asked;
  state: State;
  wide: number;
  store: Store;
}

type Child = Node | string | number | null | undefined | false | Child[];

/** Of an element: attributes, and handlers by the names of their events. */
interface Properties {
  [name: string]: unknown;
  onClick?: (event: MouseEvent) => unknown;
  onSubmit?: (event: SubmitEvent) => unknown;
  onDragover?: (event: DragEvent) => unknown;
  onDrop?: (event: DragEvent) => unknown;
}

// Media: see media/index.js ----------------------------------------------------------------------

interface Roles {
  look: LookLike;
  over: Over;
  chooses: boolean;
  bars: boolean;
  share?: boolean;
}

interface Strip {
  root: HTMLElement;
  update(row: Numbers | null, query: number, key: number | null): void;
  point(positions: number[]): void;
}

type MakeStrip = (store: Store, name: string, axis: Axis, roles: Roles) => Strip;

interface StillFacts {
  values: Float32Array;
  grid: number[];
  best: number;
  label: string;
  over: Over;
}

interface Places {
  one: string;
  many: string;
  lays(look: LookLike, axis: Axis): boolean;
  strip: MakeStrip;
  ticks?(look: LookLike, axis: Axis, then: () => void): Ticks;
  still?(store: Store, look: LookLike, facts: StillFacts): HTMLElement;
}

interface AnswerForm {
  title: string;
  body(answer: Answer, before: Answer | null): Node[];
  top?(answer: Answer): string | undefined;
  list?(answer: Answer): Chance[];
  speaker?: string;
  nothing?(answer: Answer): boolean;
}

interface ControlFacts {
  store: Store;
  source: Source;
  give(input: Input, draft?: number): void;
  take(file: File): void;
}

interface Control {
  nodes: HTMLElement[];
  show(input: Input): void;
  send(): void;
}

interface Medium {
  kinds: string[];
  takes: Record<string, () => Input>;
  describe(input: Input): string;
  isBlank?(input: Input): boolean;
  address(input: Input): Record<string, string> | null;
  restore(example: Input, given: Record<string, string>): Input;
  python(input: Input): string;
  accepts(file: File): boolean;
  fromFile(file: File, source: Source, input: Input): Promise<Input>;
  refused: string;
  control(facts: ControlFacts): Control;
  axes?: Record<string, Places>;
  answers?: Record<string, AnswerForm>;
}

// What single modules are told -------------------------------------------------------------------

interface Saved {
  document: LookDocument;
  maps: Record<string, string>;
  vectors: Record<string, Record<'queries' | 'keys' | 'values', string>>;
  words: Record<string, { equation: string; limit: string }>;
}

interface TroubleWords {
  what: string;
  got?: string;
  expected?: string;
  fix?: string;
}

interface SheetFacts {
  rows: number;
  columns: number;
  exact?: Float32Array | null;
  coarse?: (Copy & { level: number }) | null;
  fetchLevel?: (index: number) => Promise<Float32Array>;
  fetchRow?: (row: number) => Promise<Float32Array>;
}

interface MapAsked {
  label: string;
  onHover?: (cell: Place | null) => void;
  onPick?: (cell: Place | null) => void;
  onOpen?: () => void;
  small?: boolean;
}

interface Gestures {
  framed(): boolean;
  zoomed(): boolean;
  origin(): { left: number; top: number };
  drag(x: number, y: number): void;
  zoomBy(factor: number, x?: number, y?: number): void;
  reset(): void;
  hover(event: PointerEvent | null): void;
  pick(event: MouseEvent): void;
  open(): void;
  step(by: number[]): void;
}

interface Measured {
  width: number;
  frame: number;
  small: boolean;
  rows: string[];
  columns: string[];
  font: string;
  patches?: { query?: Ticks; key?: Ticks };
}

interface Painted {
  box: MapBox;
  view: MapView;
  size: number;
  tall: number;
  rows: number;
  columns: number;
  colours: Colours;
  hover?: Place | null;
  cursor?: Place | null;
  patches: { query?: Ticks; key?: Ticks };
}

interface PaintFacts {
  tiles: import('./tiles.js').Tiles;
  box: MapBox;
  view: MapView;
  small: boolean;
  density: number;
  shown: ShownMap;
}

interface TileFacts {
  x: number;
  y: number;
  size: number;
  tall: number;
  width: number;
  height: number;
  density?: number;
}

type Ring = [index: number | null, colour: string, thickness: number];

interface WantedLines {
  queries: number[];
  keys: number[];
  whole: boolean;
  query?: number;
}

interface DrawnLines extends WantedLines {
  paths: { query: number; key: number; path: SVGPathElement }[];
  left: SVGGElement[];
  right: SVGGElement[];
  width: number;
  sheet: SheetLike;
  look: LookLike;
  rows: string;
  columns: string;
}

interface Move {
  name: string;
  old?: number;
  now?: number;
  change: number;
  known: boolean;
}

interface PlotAxes {
  wide: number;
  x(value: number): number;
  y(value: number): number;
  xTicks: [place: number, text: string][];
  yTicks: number[];
  xName: string;
  yName: string;
}

interface DotsFacts {
  wide: number;
  label: string;
  groups: (number | null)[][];
  names: string[];
  xName: string;
  yName: string;
  chosen: { place: number; head: Head };
  onChoose(place: number, head: number): void;
}

interface BarsFacts {
  wide: number;
  label: string;
  values: number[];
  names: string[];
  yName: string;
  marked: number;
}

interface SpectrumLine {
  name: string;
  values: number[];
  look: string;
  write(value: number): string;
}

interface Taken {
  weights: number[];
  power: number;
  total: number;
  top: number;
  hidden: number;
  products: number[];
  gap: number;
}

interface WorkFacts {
  site: Site;
  heat: number;
  key: number;
  numbers: WholeCell;
  rowName: string;
  columnName: string;
  share: boolean;
  labels: string[];
  parts: Taken;
}

/** The same of a cell that may have no arithmetic. */
interface CellFacts extends Omit<WorkFacts, 'numbers' | 'parts'> {
  numbers: CellNumbers;
}

interface StepFacts {
  numbers: WholeCell;
  parts: Taken;
  heat: number;
  query: number;
  key: number;
  fed: string;
  causal: boolean;
  model: Model;
  facts: Site;
  rowAxis: Axis;
  columnAxis: Axis;
  row: string;
  column: string;
  name: string;
  sites: Site[];
}

interface Step {
  title: string;
  part: string;
  text(facts: StepFacts): string;
}

interface KeyboardFacts {
  page: HTMLElement;
  tour: { start(): unknown; running(): boolean; stop(): void };
  toggleTheme(): void;
  tabs: string[][];
}

interface Candy {
  name: string;
  row: number;
  column: number;
  colour: number[];
}

interface CandyAsked {
  query: number;
  head: 'colour' | 'lightness' | 'neighbours';
  temperature: number;
  masked?: Set<number>;
  causal?: boolean;
}

interface CandyState extends Required<CandyAsked> {
  hiding: boolean;
}

interface WidgetModel {
  get(name: string): any;
  set(name: string, value: unknown): void;
  on(name: string, run: () => void): void;
  off(name: string, run: () => void): void;
  save_changes(): void;
}

// Figures: those that are exported, and those of the lectures.

interface FigureWords {
  title: string;
  note: string;
  colours: Colours;
}

type FigureFacts = Matrix & FigureWords;

interface FigureCheck {
  name: string;
  got: string | number | boolean;
  expected: string;
  ok: boolean;
}

interface LectureFigure {
  id: string;
  deck: string;
  title: string;
  claim: string;
  command: string;
  conclusion: string | null;
  expected: string;
  found: string | null;
  stale: boolean;
  verdict: string | null;
  agreement: string | null;
  checks: FigureCheck[] | null;
}

interface FigureSource {
  figures: () => Promise<LectureFigure[]>;
  figureAddress: (id: string) => string;
}
