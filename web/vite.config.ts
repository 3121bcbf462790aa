import react from '@vitejs/plugin-react';
import { defineConfig } from 'vitest/config';

// A node to develop against: belfry dev prints its address.
const node = process.env.BELFRY_URL ?? 'http://127.0.0.1:7070';

export default defineConfig({
  base: '/ui/',
  plugins: [react()],
  build: {
    target: 'es2023',
    assetsInlineLimit: 0, // an inlined font would be a data: URL, which font-src 'self' blocks
    modulePreload: { polyfill: false },
    sourcemap: false,
    reportCompressedSize: false,
  },
  server: { proxy: { '/api': node } },
  test: { include: ['src/**/*.test.{ts,tsx}'], testTimeout: 60_000 },
});
