// Stops a program from outside: by a signal of yours, after a time, or with kill().
//
//   node examples/abort.mjs
import { run, spawn } from 'sheepdog'

// By a signal: SIGTERM to the program's group first, SIGKILL to the whole tree after killGraceMs.
const stop = new AbortController()
setTimeout(() => stop.abort(new Error('no longer wanted')), 300)
await run('sh', ['-c', 'echo begun; sleep 3600'], { signal: stop.signal, killGraceMs: 500 }).catch((error) =>
  console.log(`${error.code} because: ${error.cause.message}; printed so far: ${error.result.stdout.trim()}`),
)

// After a time.
await run('sleep', ['3600'], { signal: AbortSignal.timeout(300) }).catch((error) =>
  console.log(`${error.code} because: ${error.cause.name}`),
)

// While its output is being read. `await using` would do the same at the end of the block.
const child = spawn('sh', ['-c', 'sleep 3600 & echo $$; echo ready; wait'])
for await (const { text } of child) if (text === 'ready') break
const result = await child.kill() // resolves when the tree is gone
console.log(`ended by ${result.signal} after ${Math.round(result.durationMs)} ms`)
