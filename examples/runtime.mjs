// An agent behind a WebSocket, and its client: here in one program, usually a container and whoever uses it.
//
//   node examples/runtime.mjs
import { RuntimeClient, serveRuntime } from 'sheepdog/runtime'

const server = await serveRuntime({
  port: 0,
  handler: {
    async run({ userPrompt }, sender) {
      await sender.sendAssistantMessage(['let me see ...'])
      return { type: 'text', text: `you asked: ${userPrompt}` }
    },
  },
})
const client = await RuntimeClient.connect(server.url)

const { results } = await client.executeCommands(['echo out; exit 3'], {
  onCommandOutput: ({ text }) => console.log(`over there: ${text.trim()}`),
})
console.log(`exit ${results[0].exitCode}`)

const { data } = await client.query('What is here?', {
  systemPrompt: '',
  model: '',
  onAssistantMessage: (blocks) => console.log(blocks.join('')),
})
console.log(data.text)

console.log(await client.endSession()) // every file is home, or named
await client.close()
await server.close()
