// A host that is killed while its program runs: `node host.mjs TAG`. It says when all processes have been started.
import { daemons, spawn } from './tools.mjs'

const tag = process.argv[2]
for await (const { text } of spawn('sh', ['-c', `${daemons(tag)} sleep ${tag}; true`]).lines())
  console.log(text)
