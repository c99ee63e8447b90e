/** Tokens that a model was given and gave. */
export interface TokenUsage {
  inputTokens: number
  outputTokens: number
  /** Of a cache; whether they are part of `inputTokens` is the service's way of counting. */
  cachedInputTokens: number
}
