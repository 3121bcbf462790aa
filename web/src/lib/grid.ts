/** Where an arrow key leads in a grid of n cells in rows of `width`; null if the key does not move. */
export function moveInGrid(at: number, key: string, width: number, n: number): number | null {
  const row = Math.floor(at / width);
  const last = n - 1;
  switch (key) {
    case 'ArrowRight': return Math.min(at + 1, last);
    case 'ArrowLeft': return Math.max(at - 1, 0);
    case 'ArrowDown': return at + width <= last ? at + width : at;
    case 'ArrowUp': return at - width >= 0 ? at - width : at;
    case 'Home': return row * width;
    case 'End': return Math.min(row * width + width - 1, last);
    case 'PageUp': return at % width;
    case 'PageDown': return Math.min(Math.floor(last / width) * width + (at % width), last);
    default: return null;
  }
}
