// Watches several programs at once. Each has its own clocks, and one that hangs does not hold up the others.
//
//   node examples/many-at-once.mjs
import { run } from 'sheepdog'

const programs = {
  quick: 'echo done',
  busy: 'for i in 1 2 3 4; do echo $i; sleep 0.2; done',
  failing: 'echo "out of luck" >&2; exit 3',
  hanging: 'echo "just a moment"; sleep 3600',
  leaving: 'sleep 3600 & echo "somebody else goes on"',
}

const ends = await Promise.all(
  Object.entries(programs).map(async ([name, script]) => {
    const { code = 'ended', result } = await run('sh', ['-c', script], { idleTimeoutMs: 1000 }).then(
      (result) => ({ result }),
      (error) => error,
    )
    const { exitCode, signal, durationMs, straysKilled } = result
    return { name, end: code, status: exitCode ?? signal, ms: Math.round(durationMs), straysKilled }
  }),
)
console.table(ends)
