// What a runtime tells and asks a program with handlers.
import type { Sdk } from './conversation'

type Handlers = Record<string, unknown>

/** What happens, by which request it is answered, and by which handlers. */
export function events(
  sdk: Sdk,
): [name: string, event: [string, object], method: string, handlers: Handlers][] {
  const tool = (handler: unknown, name = 'add') => ({ tools: [{ name, handler }] })
  const call = { requestId: 'r', toolCallId: 'c', toolName: 'add', arguments: { a: 1 } }
  const handled = 'session.tools.handlePendingToolCall'
  const permission = { requestId: 'r', permissionRequest: { kind: 'shell', fullCommandText: 'ls' } }
  const permitted = 'session.permissions.handlePendingPermissionRequest'
  const elicitation = { requestId: 'r', message: 'm', requestedSchema: { type: 'object', properties: {} } }
  const elicited = 'session.ui.handlePendingElicitation'
  const command = { requestId: 'r', command: '/go now', commandName: 'go', args: 'now' }
  const executed = 'session.commands.handlePendingCommand'
  const auth = { requestId: 'r', serverName: 'n', serverUrl: 'http://127.0.0.1:1', reason: 'initial' }
  const authorized = 'session.mcp.oauth.handlePendingRequest'
  const fails = async () => {
    throw new Error('no')
  }
  return [
    ['a tool: text', ['external_tool.requested', call], handled, tool(async () => 'text')],
    ['a tool: nothing', ['external_tool.requested', call], handled, tool(async () => undefined)],
    ['a tool: an object', ['external_tool.requested', call], handled, tool(async () => ({ n: 1 }))],
    [
      'a tool: a result',
      ['external_tool.requested', call],
      handled,
      tool(async () => ({ textResultForLlm: 't', resultType: 'failure', error: 'e', sessionLog: 'l' })),
    ],
    ['a tool: an error', ['external_tool.requested', call], handled, tool(fails)],
    [
      'a permission',
      ['permission.requested', permission],
      permitted,
      { onPermissionRequest: sdk.approveAll },
    ],
    [
      'a permission: a refusal',
      ['permission.requested', permission],
      permitted,
      { onPermissionRequest: () => ({ kind: 'reject', feedback: 'no' }) },
    ],
    [
      'a permission: an error',
      ['permission.requested', permission],
      permitted,
      { onPermissionRequest: fails },
    ],
    [
      'an elicitation',
      ['elicitation.requested', elicitation],
      elicited,
      { onElicitationRequest: async () => ({ action: 'accept', content: { a: 1 } }) },
    ],
    [
      'an elicitation: an error',
      ['elicitation.requested', elicitation],
      elicited,
      { onElicitationRequest: fails },
    ],
    ['a command', ['command.execute', command], executed, { commands: [{ name: 'go', handler: () => {} }] }],
    [
      'a command: an error',
      ['command.execute', command],
      executed,
      { commands: [{ name: 'go', handler: fails }] },
    ],
    [
      'a command that is unknown',
      ['command.execute', command],
      executed,
      { commands: [{ name: 'x', handler: fails }] },
    ],
    [
      'a sign-in',
      ['mcp.oauth_required', auth],
      authorized,
      { onMcpAuthRequest: async () => ({ accessToken: 't', expiresIn: 5 }) },
    ],
    [
      'a sign-in: nothing',
      ['mcp.oauth_required', auth],
      authorized,
      { onMcpAuthRequest: async () => undefined },
    ],
    ['a sign-in: an error', ['mcp.oauth_required', auth], authorized, { onMcpAuthRequest: fails }],
  ]
}

/** What the runtime asks, and who answers. */
export const questions: [name: string, question: [string, object], handlers: (sdk: Sdk) => Handlers][] = [
  [
    'user input',
    ['userInput.request', { question: 'q', choices: ['a'] }],
    () => ({ onUserInputRequest: () => ({ answer: 'a', wasFreeform: false }) }),
  ],
  ['user input, nobody there', ['userInput.request', { question: 'q' }], () => ({})],
  [
    'exit of plan mode',
    ['exitPlanMode.request', { summary: 's', actions: [] }],
    () => ({ onExitPlanModeRequest: () => ({ approved: false, feedback: 'f' }) }),
  ],
  ['exit of plan mode, nobody there', ['exitPlanMode.request', { summary: 's' }], () => ({})],
  [
    'a switch of models',
    ['autoModeSwitch.request', { errorCode: 'e' }],
    () => ({ onAutoModeSwitchRequest: () => 'yes' }),
  ],
  ['a switch of models, nobody there', ['autoModeSwitch.request', {}], () => ({})],
  [
    'a hook',
    ['hooks.invoke', { hookType: 'preToolUse', input: { toolName: 't' } }],
    () => ({ hooks: { onPreToolUse: () => ({ permissionDecision: 'deny' }) } }),
  ],
  [
    'a hook that nobody has',
    ['hooks.invoke', { hookType: 'agentStop', input: {} }],
    () => ({ hooks: { onPreToolUse: () => {} } }),
  ],
  [
    'a hook that throws',
    ['hooks.invoke', { hookType: 'preToolUse', input: {} }],
    () => ({
      hooks: {
        onPreToolUse: () => {
          throw new Error('no')
        },
      },
    }),
  ],
  [
    'a text of the system',
    ['systemMessage.transform', { sections: { tone: { content: 'kind' } } }],
    () => ({
      systemMessage: { mode: 'customize', sections: { tone: { action: (text: string) => `${text}er` } } },
    }),
  ],
  [
    'a canvas',
    ['canvas.open', { canvasId: 'c', instanceId: 'i', extensionId: 'e' }],
    (sdk) => ({
      canvases: [
        sdk.createCanvas({
          id: 'c',
          displayName: 'C',
          description: 'd',
          open: () => ({ url: 'http://127.0.0.1:1' }),
        }),
      ],
    }),
  ],
  ['a canvas that is unknown', ['canvas.open', { canvasId: 'x', instanceId: 'i' }], () => ({})],
  [
    'an action of a canvas',
    ['canvas.action.invoke', { canvasId: 'c', instanceId: 'i', actionName: 'go', input: 1 }],
    (sdk) => ({
      canvases: [
        sdk.createCanvas({
          id: 'c',
          displayName: 'C',
          description: 'd',
          actions: [{ name: 'go', handler: () => ({ done: true }) }],
          open: () => ({}),
        }),
      ],
    }),
  ],
  ['something that nobody knows', ['nothing.known', {}], () => ({})],
]
