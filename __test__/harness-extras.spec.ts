// Images and MCP servers of a turn, as far as the edge goes: what real CLIs make of them is in fixtures/agent-cases.mjs.
import { mkdtempSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { Harness, type McpServer, type ProviderName } from '..'
import { done, failure, played, session } from './played-agent'

const cwd = mkdtempSync(join(tmpdir(), 'sheepdog-extras-'))
writeFileSync(join(cwd, 'a.png'), 'an image')
writeFileSync(join(cwd, 'a,b.png'), 'an image')
writeFileSync(join(cwd, 'large.png'), '')
truncateSync(join(cwd, 'large.png'), (20 << 20) + 1)
const files: McpServer = { name: 'files', command: 'serve', args: ['a "b"'], env: { TOKEN: 'a-secret' } }
const web: McpServer = {
  name: 'web',
  url: 'http://127.0.0.1:1/mcp',
  headers: { Authorization: 'Bearer b-secret' },
}

describe('images and MCP servers of a turn', () => {
  it('reach the CLI, without a secret among its arguments', async () => {
    const options = { cwd, images: ['a.png'], mcpServers: [files, web] }
    const { process } = await played([session, { tell: 'env' }, done], options).run('hi')
    const args = process!.args
    expect(args).toContain(`--image=${join(cwd, 'a.png')}`)
    expect(args).toEqual(
      expect.arrayContaining([
        'mcp_servers.files.command="serve"',
        'mcp_servers.files.args=["a \\"b\\""]',
        'mcp_servers.files.env_vars=["TOKEN"]',
        'mcp_servers.web.url="http://127.0.0.1:1/mcp"',
        'mcp_servers.web.env_http_headers={"Authorization"="SHEEPDOG_MCP_1_0"}',
      ]),
    )
    expect(args.join(' ')).not.toContain('secret')
  })

  it('reach the CLI by its environment', async () => {
    const { text } = await played([session, { tell: 'env' }, done], { mcpServers: [files, web] }).run('hi')
    expect(JSON.parse(text)).toMatchObject({ TOKEN: 'a-secret', SHEEPDOG_MCP_1_0: 'Bearer b-secret' })
  })

  it.each<[ProviderName, object, string]>([
    [
      'gemini',
      { images: ['a.png'] },
      'images: gemini takes no images in a turn; claude-code, codex, opencode, copilot, qwen, pi can',
    ],
    [
      'kimi',
      { images: ['a.png'] },
      'images: kimi takes no images in a turn; claude-code, codex, opencode, copilot, qwen, pi can',
    ],
    [
      'pi',
      { mcpServers: [web] },
      'mcpServers: pi takes no MCP servers in a turn; claude-code, codex, opencode, copilot, qwen can',
    ],
    [
      'copilot',
      { mcpServers: [{ ...web, name: 'Shell' }] },
      'mcpServers[0].name: copilot has tools of this name itself, choose another: "Shell"',
    ],
    [
      'claude-code',
      { images: ['a.png'] },
      `images[0]: ${join(cwd, 'a.png')} is not a PNG, JPEG, GIF or WebP image`,
    ],
    ['qwen', { images: ['large.png'] }, `images[0]: ${join(cwd, 'large.png')} is larger than 20 MiB`],
  ])('are refused by %s, which does not take them: %j', async (provider, options, message) => {
    const harness = new Harness({ provider, cwd, permission: 'auto', binary: process.execPath })
    const error = await failure(harness.run('hi', options))
    expect(error).toMatchObject({ code: 'INVALID_OPTION', message })
  })

  it.each([
    [{ images: ['no-such.png'] }, /^images\[0\]: .*no-such\.png is no file/],
    [{ images: ['a,b.png'] }, /^images: codex cannot take a path with a comma/],
    [{ images: 'a.png' }, /^images: expected an array of strings/],
    [{ mcpServers: [{ ...files, name: 'a b' }] }, /^mcpServers\[0\]\.name: expected letters/],
    [{ mcpServers: [files, files] }, /^mcpServers\[1\]\.name: "files" is given twice/],
    [
      { mcpServers: [files, { ...files, name: 'other', env: { TOKEN: 'x' } }] },
      /^mcpServers\[1\]\.env\["TOKEN"\]: /,
    ],
    [{ mcpServers: [{ name: 'x' }] }, /^mcpServers\[0\]: expected either url or command/],
    [{ mcpServers: {} }, /^mcpServers: expected an array/],
  ])('are checked: %j', async (options, message) => {
    const error = await failure(played([session, done], { cwd }).run('hi', options as never))
    expect(error).toMatchObject({ code: 'INVALID_OPTION', message })
  })
})
