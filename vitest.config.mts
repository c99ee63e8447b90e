import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['__test__/**/*.spec.ts'],
    globalSetup: '__test__/temporary.ts',
    // Crash tests kill their host: each spec file is a process of its own.
    pool: 'forks',
    testTimeout: 30_000,
    hookTimeout: 30_000,
  },
})
