// Reads the events of a program that prints JSON lines. Only the wanted types are parsed and handed to JavaScript; noise between
// the events does no harm, and a slow loop slows the program instead of filling the memory.
//
//   node examples/json-events.mjs
import { spawn } from 'sheepdog'

const program = `
  for (let i = 1; i <= 1000; i++) console.log(JSON.stringify({ type: 'delta', text: 'x'.repeat(200), i }))
  console.log('a line that is no JSON')
  console.log(JSON.stringify({ type: 'step', name: 'read the files' }))
  console.log(JSON.stringify({ type: 'result', text: 'done', tokens: 42 }))
`
const child = spawn(process.execPath, ['-e', program])
for await (const event of child.json({ types: ['step', 'result'] })) console.log(event)

const { stdoutBytes, durationMs } = await child.result
console.log(`${stdoutBytes} bytes were printed in ${Math.round(durationMs)} ms`)
