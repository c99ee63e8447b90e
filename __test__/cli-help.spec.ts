// The help of the command fits a terminal of 80 columns, and each text shows a command line to begin with.
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { NamedCommand } from '../cli/command'
import { sheepdog } from './cli-command'

const built = createRequire(join(__dirname, '../dist/cli/'))
const commands = (built('./catalogue.js') as { commands(): NamedCommand[] }).commands()
const { renderHelp } = built('./help.js') as { renderHelp(command: NamedCommand): string }

const tooWide = (text: string) => text.split('\n').filter((line) => line.length > 80)

it('every command is looked at', () => {
  expect(commands.map(({ name }) => name)).toEqual(expect.arrayContaining(['run', 'agent', 'fleet']))
  expect(commands.length).toBeGreaterThan(15)
})

describe.each(commands)('sheepdog help $name', (command) => {
  const text = renderHelp(command)

  it('is at most 80 columns wide', () => {
    expect(tooWide(text)).toEqual([])
  })

  it('has an example of this command', () => {
    const examples = /^Examples:\n((?: {2}.*\n)+)/m.exec(text)?.[1] ?? ''
    expect(examples).toContain(`sheepdog ${command.name}`)
  })

  it('names the status of a wrong command line beside the others', () => {
    const [, status] = /\nExit status: ([^]*?)(?:\n\n|$)/.exec(text) ?? []
    if (status !== undefined) expect(status.replaceAll('\n', ' ')).toContain('2 for a wrong command line')
  })

  it('says of each option what it does', () => {
    for (const [name, { help }] of Object.entries(command.options)) {
      expect(help, name).not.toMatch(/^(default|what|who|where|whom|of)\b/i)
      expect(help.length, name).toBeGreaterThan(10)
    }
  })
})

it('the list of commands is at most 80 columns wide and has an example', async () => {
  const { stdout } = await sheepdog(['--help'])
  expect(tooWide(stdout)).toEqual([])
  expect(stdout).toMatch(/^Examples:\n {2}sheepdog run/m)
})
