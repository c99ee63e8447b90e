// Models, and providers that the program brings itself.
import type { AutoTier, ModelBillingTokenPrices } from './generated'

export type ReasoningEffort = 'low' | 'medium' | 'high' | 'xhigh' | 'max'
export type ContextTier = 'default' | 'long_context'

export interface ModelCapabilities {
  supports: { vision: boolean; reasoningEffort: boolean }
  limits: {
    max_prompt_tokens?: number
    max_output_tokens?: number
    max_context_window_tokens: number
    vision?: { supported_media_types: string[]; max_prompt_images: number; max_prompt_image_size: number }
  }
}

type DeepPartial<T> = T extends readonly (infer Item)[]
  ? DeepPartial<Item>[]
  : T extends object
    ? { [Key in keyof T]?: DeepPartial<T[Key]> }
    : T

export type ModelCapabilitiesOverride = DeepPartial<ModelCapabilities>

export interface ModelPolicy {
  state: 'enabled' | 'disabled' | 'unconfigured'
  terms: string
}
export interface ModelBilling {
  multiplier?: number
  tokenPrices?: ModelBillingTokenPrices
}
export interface ModelInfo {
  id: string
  name: string
  capabilities: ModelCapabilities
  policy?: ModelPolicy
  billing?: ModelBilling
  supportedReasoningEfforts?: ReasoningEffort[]
  defaultReasoningEffort?: ReasoningEffort
}

export interface ProviderTokenArgs {
  readonly providerName: string
  readonly sessionId: string
}
/** Asked for a fresh token whenever the runtime needs one. */
export type BearerTokenProvider = (args: ProviderTokenArgs) => Promise<string>

interface ProviderBase {
  type?: 'openai' | 'azure' | 'anthropic'
  wireApi?: 'completions' | 'responses'
  baseUrl: string
  apiKey?: string
  bearerToken?: string
  bearerTokenProvider?: BearerTokenProvider
  azure?: { apiVersion?: string }
  headers?: Record<string, string>
}
/** The one provider of a session. */
export interface ProviderConfig extends ProviderBase {
  transport?: 'http' | 'websockets'
  modelId?: string
  wireModel?: string
  maxPromptTokens?: number
  maxOutputTokens?: number
}
export interface NamedProviderConfig extends ProviderBase {
  name: string
}
export interface ProviderModelConfig {
  id: string
  /** Name of its provider. */
  provider: string
  wireModel?: string
  modelId?: string
  name?: string
  maxPromptTokens?: number
  maxContextWindowTokens?: number
  maxOutputTokens?: number
  capabilities?: ModelCapabilitiesOverride
}
export interface CapiSessionOptions {
  autoTier?: AutoTier
  enableWebSocketResponses?: boolean
}

/** Fills in what older runtimes leave out. */
export function completeModel(model: ModelInfo): ModelInfo {
  const capabilities = (model.capabilities ?? {}) as Partial<ModelCapabilities>
  const limits = { max_context_window_tokens: 0, ...capabilities.limits }
  const supports = (capabilities.supports ?? {}) as ModelCapabilities['supports']
  return { ...model, capabilities: { ...capabilities, supports, limits } }
}

/** The session's own provider has this name when a token is asked for. */
const OWN_PROVIDER = 'default'

/** Providers for the wire, and the functions that stay here, by the provider's name. */
export function splitProviders(
  provider: ProviderConfig | undefined,
  providers: NamedProviderConfig[] | undefined,
) {
  const tokens = new Map<string, BearerTokenProvider>()
  const split = <T extends ProviderBase>(name: string, config: T): unknown => {
    const { bearerTokenProvider, ...rest } = config
    if (!bearerTokenProvider) return config
    tokens.set(name, bearerTokenProvider)
    return { ...rest, hasBearerTokenProvider: true }
  }
  return {
    provider: provider && split(OWN_PROVIDER, provider),
    providers: providers?.map((one) => split(one.name, one)),
    tokens,
  }
}
