import { defineConfig } from '@playwright/test';

export default defineConfig({
  testDir: 'e2e',
  globalSetup: './e2e/setup.ts',
  fullyParallel: true,
  workers: 2,
  retries: 0,
  timeout: 600_000, // for a busy machine; no test waits for a time
  expect: { timeout: 60_000 },
  reporter: [['list'], ['./e2e/last.ts']],
  // The story waits for runs more than it computes. Started last, it would leave a worker without a test.
  projects: [
    { name: 'story', testMatch: 'story.spec.ts' },
    { name: 'screens', testIgnore: 'story.spec.ts' },
  ],
  use: {
    viewport: { width: 1440, height: 900 },
    timezoneId: 'America/New_York',
    trace: { mode: 'retain-on-failure', screenshots: false }, // states of the page, not pictures of each frame
    // Debian's browser: nothing is downloaded. The shell without a window is the same engine and needs less of the processor. As root,
    // Chromium's own sandbox cannot work.
    launchOptions: {
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium-headless-shell',
      args: process.getuid?.() === 0 ? ['--no-sandbox'] : [],
    },
  },
});
