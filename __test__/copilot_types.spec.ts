// Types beside the Copilot SDK's, of its newest release and of its newest preview: every exported name and every member.
import { expect, it } from 'vitest'
import { differencesFrom } from './copilot/assignable.mjs'
import { differences } from './copilot/differences'

it.each(Object.keys(differences))('what compiles with %s compiles here', (sdk) => {
  const { names, missing, given, got } = differencesFrom(sdk)
  expect(names).toBeGreaterThan(700)
  expect(missing).toEqual([])
  const found = [...given, ...got]
  const rows = differences[sdk]!
  expect(found.filter((path) => !rows.some(({ paths }) => paths.test(path)))).toEqual([])
  const stale = rows.filter(({ paths }) => !found.some((path) => paths.test(path)))
  expect(stale.map(({ why }) => why)).toEqual([])
})

it('a change of a result, a parameter, an option, an event or a method of RPC is seen', () => {
  type Where = 'given' | 'got'
  const edits: [from: string, to: string, where: Where, path: string][] = [
    [
      'getLastSessionId(): Promise<string | undefined>',
      'getLastSessionId(): Promise<number>',
      'got',
      'CopilotClient.getLastSessionId()',
    ],
    [
      'deleteSession(sessionId: string)',
      'deleteSession(sessionId: number)',
      'got',
      'deleteSession(sessionId)',
    ],
    ['clientName?: string', 'clientName?: number', 'given', 'clientName'],
    ['type IdleData = {', 'type IdleData = { aborted: string', 'got', '[session.idle].data.aborted'],
    ['getCurrent(): Promise<CurrentModel>', 'getCurrent(): Promise<string>', 'got', 'rpc.model.getCurrent()'],
  ]
  const edit = (text: string) => edits.reduce((all, [from, to]) => all.replace(from, to), text)
  const found = differencesFrom('@github/copilot-sdk', edit)
  for (const [, , where, path] of edits) {
    const told = found[where].filter((one: string) => one.includes(path))
    expect(told, path).not.toEqual([])
  }
})
