import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['__test__/**/*.spec.ts'],
    globalSetup: '__test__/temporary.ts',
    setupFiles: process.env.NODE_V8_COVERAGE ? ['scripts/coverage-worker.mjs'] : [],
    // Crash tests kill their host: each spec file is a process of its own.
    pool: 'forks',
    // They wait for programs more than they compute: vitest's own choice, a core fewer than there are, leaves two idle.
    maxWorkers: availableParallelism() + 1,
    testTimeout: 30_000,
    hookTimeout: 30_000,
    // Of what the tests have left on the disk, too.
    teardownTimeout: 60_000,
  },
})
