"""Frames a second of the page with 2,040 tokens and 12 x 12 heads, while the pointer moves over the map and while it is
scrolled, in a real browser without a graphics card:  python -m benchmarks.page"""

import os
from statistics import median

from tests.page.shots import LONG, browsing

VIEW = f"#model=run:long&text={LONG}&site=blocks.3.mixer&head=5&row=1500&column=1490"
ROUNDS, LEAST = 5, 30.0
MOVING = """async (kind) => {
  const canvas = document.querySelector('.stage-body canvas');
  const box = canvas.getBoundingClientRect();
  const gaps = [];
  let last = await new Promise(requestAnimationFrame);
  for (let step = 0; step < 150; step += 1) {
    const place = { clientX: box.left + 80 + 3 * step, clientY: box.top + 80 + 2 * step, bubbles: true };
    if (kind === 'hovering') canvas.dispatchEvent(new PointerEvent('pointermove', place));
    else window.scrollBy(0, step < 75 ? 12 : -12);
    const now = await new Promise(requestAnimationFrame);
    gaps.push(now - last);
    last = now;
  }
  return gaps;
}"""


def main() -> None:
    load = os.getloadavg()[0]
    with browsing() as (base, browser):
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(f"{base}/{VIEW}")
        page.wait_for_selector(".cell h2 mark", timeout=60_000)
        page.wait_for_timeout(6000)  # the thumbnails are there
        found: dict[str, list[float]] = {"hovering": [], "scrolling": []}
        for _ in range(ROUNDS):
            for kind, rates in found.items():
                gaps = page.evaluate(MOVING, kind)
                rates.append(1000 * len(gaps) / sum(gaps))
    busy = "  (the machine was busy)" if load > (os.cpu_count() or 1) else ""
    print(f"2,040 tokens, 144 heads: frames a second, {ROUNDS} rounds, load {load:.1f}{busy}")
    for kind, rates in found.items():
        verdict = "reached" if median(rates) >= LEAST else "missed"
        spread = f"({min(rates):.0f} to {max(rates):.0f})"
        print(f"  {kind:<9}  {median(rates):4.0f}  {spread}  aim {LEAST:.0f}: {verdict}")


if __name__ == "__main__":
    main()
