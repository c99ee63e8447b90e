// Runs a program to its end, and tells apart the ways in which it can end.
//
//   node examples/watch-a-program.mjs                    a program that falls silent
//   node examples/watch-a-program.mjs git status         any other
import { run } from 'sheepdog'

const [command, ...args] = process.argv.slice(2)
const watched = command ? [command, args] : ['sh', ['-c', 'echo "working ..."; sleep 3600']]

try {
  const { exitCode, signal, stdout, durationMs } = await run(...watched, {
    idleTimeoutMs: 2000, // silent for so long: killed, with everything it started
    timeoutMs: 60_000, // at most so long in all
  })
  console.log(
    `ended with ${exitCode ?? signal} after ${Math.round(durationMs)} ms, having printed:\n${stdout}`,
  )
} catch (error) {
  // What was read until then is there, whatever went wrong.
  console.log(`${error.code}: ${error.message}`)
  if (error.result) console.log(`it had printed: ${JSON.stringify(error.result.stdout)}`)
}
