// One model call that ends: with an answer, or with an error that says why. Here the service is overloaded at first.
//
//   node examples/model-call.mjs
import { once } from 'node:events'
import { createServer } from 'node:http'
import { complete } from 'sheepdog/model'

let calls = 0
const service = createServer((request, response) => {
  if (calls++ === 0) return response.writeHead(529).end('{"error":{"message":"Overloaded"}}')
  const message = { role: 'assistant', content: 'Border Collie, Kelpie, Puli.' }
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify({ choices: [{ message, finish_reason: 'stop' }] }))
}).listen(0, '127.0.0.1')
await once(service, 'listening')

const { text, attempts } = await complete({
  baseUrl: `http://127.0.0.1:${service.address().port}/v1`, // https://api.openai.com/v1
  model: 'any',
  messages: [{ role: 'user', content: 'Name three sheepdogs.' }],
})
console.log(`${text} (${attempts} attempts)`)
service.close()
