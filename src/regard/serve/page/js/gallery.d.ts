// The types of gallery.js, for the type checker alone.
export function gallery(source: import('./server.js').ServerSource): HTMLElement;
