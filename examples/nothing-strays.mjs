// A program that leaves a daemon behind: a session of its own, its output closed, its parent gone. It is found and killed.
//
//   node examples/nothing-strays.mjs
import { run } from 'sheepdog'

const { stdout, straysKilled, containment } = await run('sh', [
  '-c',
  '(setsid sleep 3600 >/dev/null 2>&1 &); echo done',
])
console.log(stdout.trim(), { straysKilled, containment })
