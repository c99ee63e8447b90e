// Options of other agent SDKs (Claude Agent SDK, Codex SDK, Vercel's AI SDK), and what to use in their place. PURE.

/** The end of a message that refuses an option of this name, at a session. */
export const ofOtherAgents: Record<string, string> = {
  abortController: 'use `signal`: its AbortSignal',
  abortSignal: 'use `signal`',
  additionalDirectories: 'use `sandbox: { write: [...] }`, which lists the folders',
  allowDangerouslySkipPermissions: 'use `permission: "auto"`',
  allowedTools: 'a session has rules: `policy: { allow: [{ name }] }`; for commands use `allow`',
  apiKey: 'set the variable of the CLI in `env`; docs/signing-in.md has their names',
  appendSystemPrompt: 'use `systemPrompt`, which is added to that of the CLI',
  approvalPolicy: 'use `permission`; `open()` has `onPermission` and `policy`',
  canUseTool: 'use `onPermission` of `open()`',
  continue: 'use `resume` with the `sessionId` of an earlier result',
  cliPath: 'use `binary`',
  codexPathOverride: 'use `binary`',
  disallowedTools: 'a session has rules: `policy: { deny: [{ name }] }`',
  executable: 'use `binary: [runtime, script]`',
  forkSession: 'a session cannot be forked: `resume` continues it',
  hooks: 'iterate over the events of `start()`, or decide in `onPermission` of `open()`',
  includePartialMessages: 'events of type `text` are pieces always',
  maxBudgetUsd: 'use `maxCostUsd`',
  maxRetries: 'use `retry: { attempts }`',
  maxTokensPerTurn: 'use `maxTokens`',
  mcp_servers: 'use `mcpServers`',
  modelReasoningEffort: 'use `extraArgs` with the argument of the CLI',
  networkAccessEnabled: 'use `sandbox: { network }`',
  onUserInput: 'use `onElicitation` of `open()`',
  onUserInputRequest: 'use `onElicitation` of `open()`',
  options: 'options stand in the object itself, not in `options`',
  outputFormat: 'use `schema`',
  outputSchema: 'use `schema`',
  output_schema: 'use `schema`',
  pathToClaudeCodeExecutable: 'use `binary`',
  permissionMode: 'use `permission`: "plan", "edit" or "auto"; a session has "ask" too',
  permissionPromptToolName: 'use `onPermission` of `open()`',
  prompt: 'the prompt is the first argument',
  retries: 'use `retry: { attempts }`',
  sandboxMode: 'use `permission`, and `sandbox: "workspace"` for a sandbox of the kernel',
  settingSources: 'the CLI reads its own settings: pass its argument by `extraArgs`',
  stderr: 'errors have the end of `stderr`; `record` keeps all of it',
  system: 'use `systemPrompt`',
  systemMessage: 'use `systemPrompt`',
  timeout: 'use `timeoutMs`; `idleTimeoutMs` ends an agent that is silent',
  workingDirectory: 'use `cwd`',
}

const ofASession = 'belongs to a session: use `open()`'

/** The same at a turn. */
export const ofATurn: Record<string, string> = {
  ...ofOtherAgents,
  allowedTools: 'use `cliTools` for tools of the CLI, and `allow` for commands',
  disallowedTools: 'use `cliTools`, which lists the tools that it may use',
  onElicitation: ofASession,
  onPermission: ofASession,
  permissionTimeoutMs: ofASession,
  policy: ofASession,
  settleMs: ofASession,
  tools:
    'tools of your own (defineTool) belong to a session: use `open({ tools })`; `cliTools` limits the tools of the CLI',
}
