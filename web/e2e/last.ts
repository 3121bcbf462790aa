import { basename } from 'node:path';
import type { FullConfig, Reporter, Suite, TestCase } from '@playwright/test/reporter';

/** Prints how long each file took, and what failed once more, last and without source: the end of a long output is what people see first. */
export default class Last implements Reporter {
  private root: Suite | undefined;

  onBegin(_: FullConfig, root: Suite): void { this.root = root; }

  onEnd(): void {
    const all = this.root?.allTests() ?? [];
    const took = new Map<string, number>();
    for (const t of all) took.set(t.location.file, t.results.reduce((sum, r) => sum + r.duration, took.get(t.location.file) ?? 0));
    console.log(' seconds  slowest files, of all their tests together');
    for (const [file, ms] of [...took].sort((a, b) => b[1] - a[1])) console.log(`${(ms / 1000).toFixed(1).padStart(8)}  ${basename(file)}`);
    for (const t of all) if (t.outcome() === 'unexpected') this.print(t);
  }

  private print(t: TestCase): void {
    for (const e of t.results.flatMap((r) => r.errors)) {
      // oxlint-disable-next-line no-control-regex
      console.log(`FAILED: ${t.title}: ${(e.message ?? String(e.value)).replace(/\u001b\[\d+m/g, '').replace(/\s+/g, ' ').slice(0, 600)}`);
    }
  }
}
