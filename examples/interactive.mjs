// Talks with a program: writes to its stdin what its output asks for. Once on pipes, once on a terminal of its own.
//
//   node examples/interactive.mjs
import { spawn } from 'sheepdog'

const calculator = spawn('sh', ['-c', 'while read left right; do echo $((left * right)); done'], {
  stdin: 'pipe',
})
await calculator.stdin.write('6 7\n') // resolves when the pipe has taken it
for await (const { text } of calculator) {
  console.log(`it says ${text}`)
  await calculator.stdin.end()
}

// Many programs buffer, or don't ask at all, without a terminal.
const asking = spawn('sh', ['-c', 'test -t 0 && printf "Your name? " && read name && echo "Hello, $name."'], {
  pty: true,
  stdin: 'pipe',
})
await asking.expect('Your name? ')
await asking.stdin.write('Ada\r')
const { match } = await asking.expect(/Hello, \w+\./)
console.log(match)
