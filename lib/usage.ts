/** Tokens that a model read and wrote. */
export interface TokenUsage {
  /** Tokens of the input. */
  inputTokens: number
  /** Tokens of the output. */
  outputTokens: number
  /**
   * Input tokens that came from a cache. Some services include them in `inputTokens`, others do not.
   */
  cachedInputTokens: number
}
