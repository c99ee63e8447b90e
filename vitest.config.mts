import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['__test__/**/*.spec.ts'],
    globalSetup: '__test__/temporary.ts',
    setupFiles: process.env.NODE_V8_COVERAGE ? ['trials/coverage-worker.mjs'] : [],
    // Crash tests kill their host: each spec file is a process of its own.
    pool: 'forks',
    // They wait for programs more than they compute: vitest's own choice, a core fewer than there are, leaves two idle.
    maxWorkers: availableParallelism() + 1,
    // It imports JSON as only bundlers do.
    server: { deps: { inline: [/@actions\/(workflow-parser|expressions)/] } },
    // Tests wait for events. This is the backstop for an event that never comes: on two cores with a load of 16, tests that start
    // dozens of programs took more than 30 s.
    testTimeout: 240_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000 } },
    // The time to remove the files of the tests, too.
    teardownTimeout: 60_000,
  },
})
