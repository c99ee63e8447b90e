// Tokens and money, as the page has them. PURE.
import type { AgentUsage } from '../../lib/index'
import type { RunDetail, RunSummary } from './source'

type Usage = Pick<AgentUsage, 'inputTokens' | 'outputTokens' | 'cachedInputTokens' | 'costUsd'>

export function sumOf(usage: Usage | undefined): Pick<RunSummary, 'tokens' | 'costUsd'> {
  return { tokens: usage ? usage.inputTokens + usage.outputTokens : null, costUsd: usage?.costUsd ?? null }
}

export function tokensOf(usage: Usage | undefined): RunDetail['tokens'] {
  if (!usage) return null
  return { input: usage.inputTokens, output: usage.outputTokens, cached: usage.cachedInputTokens }
}
