import type { FullConfig, Reporter, Suite, TestCase } from '@playwright/test/reporter';

/** Prints what failed once more, last and without source: the end of a long output is what people see first. */
export default class Last implements Reporter {
  private root: Suite | undefined;

  onBegin(_: FullConfig, root: Suite): void { this.root = root; }

  onEnd(): void {
    for (const t of this.root?.allTests() ?? []) if (t.outcome() === 'unexpected') this.print(t);
  }

  private print(t: TestCase): void {
    for (const e of t.results.flatMap((r) => r.errors)) {
      // oxlint-disable-next-line no-control-regex
      console.log(`FAILED: ${t.title}: ${(e.message ?? String(e.value)).replace(/\u001b\[\d+m/g, '').replace(/\s+/g, ' ').slice(0, 600)}`);
    }
  }
}
